"""The pages of an application's executors and settings."""

from __future__ import annotations

from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.sparkpages.frame import frame
from kvwal.console.sparkreads.app_records import decoded, in_folder, one
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Environment, Executor

_EXECUTORS = (
    Column("id", "executor", "plain"),
    Column("host", "host", "clip"),
    Column("cores", "cores", "count"),
    Column("memory_bytes", "memory", "size", wide=True),
    Column("added", "added", "moment", wide=True),
    Column("removed", "removed", "moment", wide=True),
    Column("tasks", "tasks", "count"),
    Column("failed", "failed", "some"),
    Column("run_ms", "task time", "duration"),
    Column("gc_ms", "GC", "duration", wide=True),
    Column("input_bytes", "read", "size", wide=True),
    Column("shuffle_read_bytes", "shuffled in", "size", wide=True),
    Column("shuffle_write_bytes", "shuffled out", "size", wide=True),
    Column("spill_disk_bytes", "spilled", "size", wide=True),
    Column("reason", "why it left", "text", wide=True),
)
_SHOWN = ("id", "host", "cores", "memory_bytes", "added", "removed", "tasks", "failed", "run_ms", "gc_ms", "input_bytes",
          "shuffle_read_bytes", "shuffle_write_bytes", "spill_disk_bytes", "reason", "excluded", "peaks", "logs")  # fmt: skip
_PARTS = {"spark": "Spark", "metrics": "Metrics", "jvm": "JVM", "system": "System properties"}


def executors_page(records: RecordReader, recorded: RecordedApplication, command: str) -> Shown:
    """The page of the executors: excluded ones and those that lost tasks first."""
    found = [
        each
        for stored in in_folder(records, recorded.prefix, "executor")
        if (each := decoded(stored, Executor)) is not None
    ]
    found.sort(key=lambda each: (not each.excluded, -each.failed))
    rows = [
        Row(
            {name: getattr(each, name) for name in _SHOWN},
            mark="bad" if each.excluded else "warn" if each.failed else "",
        )
        for each in found
    ]
    table = Table("executors", "Executors", _EXECUTORS, rows, "No executor is recorded.")
    return Shown(
        "list.html", {**frame(recorded, "executors", command, "Executors"), "filters": False, "chips": []}, [table]
    )


def settings_page(records: RecordReader, recorded: RecordedApplication, command: str) -> Shown:
    """The page of the settings, as they are recorded: values that look like secrets are redacted."""
    environment = one(records, f"{recorded.prefix}/env", Environment) or Environment()
    columns = (Column("name", "setting", "code"), Column("value", "value", "code"))
    tables = []
    for part, title in _PARTS.items():
        rows = [Row({"name": name, "value": value}) for name, value in sorted(getattr(environment, part).items())]
        if rows or part == "spark":
            left = environment.left_out.get(part, 0)
            note = f"{left:,} more are not recorded" if left else ""
            tables.append(Table(part, title, columns, rows, "No setting is recorded.", note=note))
    return Shown(
        "settings.html", {**frame(recorded, "settings", command, "Settings"), "parts_shown": list(_PARTS)}, tables
    )
