"""The reader of Spark's event logs: its rate and its memory."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from pathlib import Path

from benchmarks.harness import Question, Row, Run, absolute_row, in_child, peak_memory, ratio_row
from kvwal.cli.main import main

QUESTION = Question(
    "event_logs",
    "How fast are event logs read, and how much memory does it take?",
    "for the rate, msgspec decoding and dropping every line of the same log; for the memory, a quarter of the log.",
    "starting the interpreter. The log is one that Spark wrote for this run.",
)
MODULE = "benchmarks.questions.spark.event_logs"
MB = 1e6


def write_log(folder: str, jobs: int, tasks: int) -> str:
    """Let Spark run jobs and write its event log. Returns the path of the log."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": Path(folder).as_uri(),
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    for _ in range(jobs):
        spark.range(0, tasks * 100, 1, tasks).write.format("noop").mode("overwrite").save()
    spark.stop()
    return str(next(path for path in Path(folder).rglob("*") if path.is_file() and not path.name.startswith(".")))


def first_quarter(log: Path, folder: Path) -> Path:
    """A copy of the first quarter of the log."""
    lines = log.read_bytes().splitlines(keepends=True)
    path = folder / f"{log.name}.inprogress"
    path.write_bytes(b"".join(lines[: len(lines) // 4]))
    return path


def decode_lines(log: str) -> dict[str, float]:
    """The baseline: decode every line from JSON, and drop it."""
    import msgspec

    decode = msgspec.json.Decoder().decode
    started = time.perf_counter()
    with open(log, "rb") as file:
        for line in file:
            decode(line)
    return {"seconds": time.perf_counter() - started, "memory": peak_memory()}


def record(root: str, log: str) -> dict[str, float]:
    """Run `kvwal record` into an empty root."""
    sys.argv = ["kvwal", "record", root, log, "--archive", "none"]
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"kvwal record ended with {end.code}") from end
    return {"seconds": time.perf_counter() - started, "memory": peak_memory()}


def measure(run: Run) -> list[Row]:
    """Two rows: the rate, and the memory beside that for a quarter of the log."""
    log = Path(in_child(f"{MODULE}:write_log", folder=str(run.root()), jobs=run.size(60, 2), tasks=run.size(200, 10)))
    quarter = first_quarter(log, run.root())
    size = log.stat().st_size / MB
    memory: list[float] = []

    def ours() -> float:
        answer = in_child(f"{MODULE}:record", root=str(run.root()), log=str(log))
        memory.append(answer["memory"])
        return float(size / answer["seconds"])

    baselines, rates = run.interleave(
        3, lambda: size / in_child(f"{MODULE}:decode_lines", log=str(log))["seconds"], ours
    )
    small = [in_child(f"{MODULE}:record", root=str(run.root()), log=str(quarter))["memory"] for _ in memory]
    return [
        absolute_row("Event logs", "MB/s", baselines, rates, "at least", 20),
        ratio_row(
            "Memory for a log four times as long", "MiB", small, memory, "at most", 1.1, {"size of the log, MB": size}
        ),
    ]
