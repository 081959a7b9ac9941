"""Kept event logs for commands: which ones there are, recording them again, and the tasks of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import msgspec

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.show import Format
from kvwal.cli.spark.job_tables import duration_text, status_cell, time_text
from kvwal.cli.tables import Sheet, columns, print_sheets
from kvwal.errors import ConfigError
from kvwal.location.cluster import ClusterMaps
from kvwal.location.readers import LocationReader
from kvwal.scrub.units import size
from kvwal.spark.eventlog.log_reader import BUSINESS, LogResult, ReportProgress
from kvwal.spark.eventlog.logs import settings_of
from kvwal.spark.eventlog.record_logs import holding
from kvwal.spark.kept.contents import KEPT_LOGS, KeptName, ReadContents, kept_logs
from kvwal.spark.kept.frames import DamagedKeptLog
from kvwal.spark.kept.reader import KeptLog
from kvwal.spark.kept.replay import kept_event_log, record_again
from kvwal.spark.kept.task_lines import StageAttempt
from kvwal.spark.kept.tasks import Task, tasks_of
from kvwal.spark.records.texts import gist
from kvwal.spark.redaction import Redaction, applied
from kvwal.store.contents.stored import StoredContents

_KEEP = "Keep logs with: kvwal record LOCATION EVENTLOG_OR_DIR… --keep-logs"
_TASKS = columns(
    ">task", "?>index", ">attempt", "status", "?launched", ">duration", ">gc", "executor", "host", ">in", ">shuffled in",
    ">shuffled out", ">spilled", "error",
)  # fmt: skip


def check_alone(others: Mapping[str, bool]) -> None:
    """Raise `ConfigError` for `--again` with one of these options."""
    if any(others.values()):
        *first, last = others
        raise ConfigError(
            f"--again reads kept logs, and goes with none of {', '.join(first)} and {last}.", hint="Leave these out."
        )


def record_kept(
    selection: StoreSelection, node: str | None, wanted: Sequence[str], accept_clock: bool, progress: ReportProgress
) -> list[LogResult]:
    """Record the kept logs of these applications again, or all of them. `ConfigError` if one of them has none."""
    if KEPT_LOGS not in selection.businesses():
        raise _nothing_kept()
    into = replace(selection, node=node)
    with selection.reader() as reader, into.writer(accept_clock=accept_clock) as store:
        contents = kept_in(reader)
        names = _wanted(contents, wanted)
        with holding(store, store.map(BUSINESS)) as (hold, beat):
            return record_again(hold, contents, names, progress, beat)


def _wanted(contents: ReadContents, wanted: Sequence[str]) -> list[KeptName]:
    """The kept logs of these applications, which are named by their ids, with or without an attempt. All, if none is named."""
    every = list(kept_logs(contents))
    if not wanted:
        return every
    found = []
    for app in wanted:
        of_app = [name for name in every if name.prefix == app or name.prefix.startswith(f"{app}/")]
        if not of_app:
            raise not_kept(app)
        found += of_app
    return list(dict.fromkeys(found))


def _nothing_kept() -> ConfigError:
    return ConfigError("No event log is kept here.", hint=_KEEP)


def not_kept(app: str) -> ConfigError:
    """The error for an application whose log is not kept."""
    return ConfigError(f"No event log of {app} is kept here.", hint=_KEEP)


def parse_stage(text: str) -> tuple[int, int | None]:
    """The stage, and the attempt if one is named, of `--tasks`: 4, or 4.1."""
    stage, dot, attempt = text.partition(".")
    if not stage.isdecimal() or not stage.isascii() or (dot and not (attempt.isdecimal() and attempt.isascii())):
        raise ConfigError(
            f"--tasks {text!r} is no stage.",
            hint="Give the number of a stage: --tasks 4, or --tasks 4.1 for its attempt 1.",
        )
    return int(stage), int(attempt) if dot else None


def kept_in(store: LocationReader) -> ReadContents:
    """The kept logs of a location that is open for reading. `ConfigError` if it has none."""
    if KEPT_LOGS not in store.businesses():
        raise _nothing_kept()
    if isinstance(store, ClusterMaps):  # names from memory, and not from the members' logs
        return cast("ReadContents", store.content(KEPT_LOGS))
    return StoredContents(store.read_business(KEPT_LOGS), KEPT_LOGS)


def only_kept(contents: ReadContents) -> str:
    """The only application of which a log is kept. `ConfigError` if there are several."""
    prefixes = [name.prefix for name in kept_logs(contents)]
    if len(prefixes) == 1:
        return prefixes[0]
    if not prefixes:
        raise _nothing_kept()
    raise ConfigError(
        f"--tasks needs an application: logs of {len(prefixes):,} are kept here.",
        hint=f"Name one of them: kvwal jobs LOCATION {prefixes[-1]} --tasks STAGE",
    )


def show_tasks(
    contents: ReadContents, prefix: str, stage: int, attempt: int | None, most: int | None, form: Format
) -> None:
    """Print the tasks of a stage of an application, in the order of their numbers: the last `most`; JSON and CSV have all."""
    with _opened(contents, prefix) as (log, rules):
        attempts = log.attempts(stage)
        of = attempts[-1] if attempt is None and attempts else StageAttempt(stage, attempt or 0)
        if of not in attempts:
            raise ConfigError(
                f"The kept log of {prefix} has no task of stage {stage}{'' if attempt is None else f'.{attempt}'}.",
                hint=f"`kvwal jobs LOCATION {prefix}` shows its stages.",
            )
        with applied(rules):
            tasks = tasks_of(log.lines(of), of)
    if len(attempts) > 1 and attempt is None:
        named = ", ".join(f"{each.stage}.{each.attempt}" for each in attempts)
        show.note(f"Stage {stage} was tried {len(attempts)} times: {named}. This is the last one.")
    if form is not Format.table:
        names = Task.__struct_fields__
        show.rows(names, (msgspec.structs.astuple(task) for task in tasks), form)
        return
    shown = tasks if most is None else tasks[-most:]
    sheet = Sheet(_TASKS)
    for task in shown:
        sheet.add_row(
            str(task.task), str(task.index), str(task.attempt), status_cell(task.status), time_text(task.launched),
            duration_text(task.duration_ms) if task.ended else "", duration_text(task.gc_ms), task.executor, task.host,
            size(task.input_bytes), size(task.shuffle_read_bytes), size(task.shuffle_write_bytes), size(task.spill_disk_bytes),
            gist(task.message),
        )  # fmt: skip
    print_sheets(sheet)
    if left_out := len(tasks) - len(shown):
        show.note(f"{left_out:,} earlier tasks are not shown: see --limit.")


@contextmanager
def _opened(contents: ReadContents, prefix: str) -> Iterator[tuple[KeptLog, Redaction]]:
    """The kept log of an application, and its rules of redaction, for a block."""
    name = next(kept_logs(contents, prefix), None)
    if name is None:
        raise not_kept(prefix)
    log = kept_event_log(contents, name)
    try:
        with contents.open(str(name)) as file:
            yield KeptLog(file, log.length), Redaction(settings_of(log))
    except DamagedKeptLog as error:
        raise DamagedKeptLog(
            f"The kept log {name} cannot be read: {error}.",
            hint="`kvwal content verify` tells whether its bytes are those that were written.",
        ) from error
