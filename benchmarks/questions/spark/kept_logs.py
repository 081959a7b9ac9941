"""The tasks of one stage out of a kept event log of 1 GB, and what it costs to keep logs."""

from __future__ import annotations

import random
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import zstandard

from benchmarks.harness import Question, Row, Run, absolute_row, in_child, unranked_row
from benchmarks.questions.spark.follower import golden
from kvwal import open as open_store
from kvwal.spark.kept.contents import KEPT_LOGS, kept_logs
from kvwal.spark.kept.reader import KeptLog
from kvwal.spark.kept.task_lines import StageAttempt
from kvwal.spark.kept.tasks import tasks_of

QUESTION = Question(
    "kept_logs",
    "How long does it take to see the 1,000 tasks of one stage of a kept event log of 1 GB?",
    "decompressing the same log, zstd in one piece, and picking the lines of the stage by their beginnings; for the cost of"
    " keeping, `kvwal record` without --keep-logs.",
    "recording the log. It has task lines that Spark wrote, 5 KB each, with other numbers in each, of 200 stages of 1,000 tasks."
    " A figure is from opening the store to the rows of all tasks, without the start of the interpreter.",
)
MODULE = "benchmarks.questions.spark.kept_logs"
PER_STAGE = 1_000
_NUMBER = re.compile(rb'(?<=[:"])(\d{3,})(?=[,"}])')
_VARIANTS = 2_000
"""Lines with numbers of their own. Other tasks have theirs from one of them: it takes a minute to make a gigabyte of numbers."""
_BATCH = 1_000


def line_after(text: bytes, event: bytes) -> bytes:
    """The first line of an event in the log that Spark wrote."""
    return next(line for line in text.split(b"\n") if line.startswith(b'{"Event":"%s"' % event))


def variants(line: bytes) -> list[bytes]:
    """Copies of a line with other numbers of the same lengths in it."""
    parts, chance = _NUMBER.split(line), random.Random(1)

    def other(digits: bytes) -> bytes:
        return str(chance.randrange(10 ** (len(digits) - 1), 10 ** len(digits))).encode()

    return [b"".join(other(part) if at % 2 else part for at, part in enumerate(parts)) for _ in range(_VARIANTS)]


def log_lines(stages: int, in_turn: bool) -> Iterator[bytes]:
    """The bytes of a log in pieces: of each stage `PER_STAGE` tasks, in turn or one stage after the other."""
    text, _ = golden()
    head, start = text.split(b"\n")[:5], line_after(text, b"SparkListenerTaskStart")
    ends = variants(line_after(text, b"SparkListenerTaskEnd"))
    yield b"\n".join(head) + b"\n"
    tasks = stages * PER_STAGE
    for first in range(0, tasks, _BATCH):
        lines = []
        for task in range(first, min(first + _BATCH, tasks)):
            stage = task % stages if in_turn else task // PER_STAGE
            for line in (start, ends[task % _VARIANTS]):
                numbered = line.replace(b'"Stage ID":0', b'"Stage ID":%d' % stage, 1)
                lines.append(numbered.replace(b'"Task ID":0', b'"Task ID":%d' % task, 1))
        yield b"\n".join(lines) + b"\n"


def write_log(folder: Path, stages: int, *, in_turn: bool) -> tuple[Path, int]:
    """A compressed log. Returns its path, and the bytes of the log without compression."""
    path, size = folder / "app.zstd", 0
    with path.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as out:
        for piece in log_lines(stages, in_turn):
            size += out.write(piece)
    return path, size


class Ran(NamedTuple):
    """A command that has ended: its seconds from start to exit, those of them on a processor, and what it printed."""

    seconds: float
    cpu_seconds: float
    out: str


def kvwal(*arguments: str) -> Ran:
    """Run a command of kvwal."""
    command = [str(Path(sys.executable).with_name("kvwal")), *arguments]
    before, started = cpu_of_children(), time.perf_counter()
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Ran(time.perf_counter() - started, cpu_of_children() - before, out)


def cpu_of_children() -> float:
    """Seconds on a processor of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_of_reading(log: Path, stage: int, tasks: int) -> float:
    """Seconds to decompress the log and pick the ends of the tasks of a stage."""
    begin, found = b'{"Event":"SparkListenerTaskEnd","Stage ID":%d,' % stage, 0
    started = time.perf_counter()
    with log.open("rb") as file:
        rest = b""
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        while data := reader.read(1 << 20):
            *lines, rest = (rest + data).split(b"\n")
            found += sum(line.startswith(begin) for line in lines)
    seconds = time.perf_counter() - started
    if found != tasks:
        raise RuntimeError(f"{found} tasks were found, and there are {tasks}")
    return seconds


def tasks_of_stage(root: Path, stage: int, tasks: int) -> Ran:
    """`kvwal jobs --tasks`."""
    ran = kvwal("jobs", str(root), "--tasks", str(stage), "--json")
    if (found := ran.out.count("\n")) != tasks:
        raise RuntimeError(f"{found} tasks were printed, and there are {tasks}")
    return ran


def read_tasks(root: str, stage: int, tasks: int) -> float:
    """Seconds to open the store and make the rows of the tasks of a stage."""
    started = time.perf_counter()
    with open_store(root, read_only=True) as store:
        contents, of = store.content(KEPT_LOGS), StageAttempt(stage, 0)
        (name,) = kept_logs(contents)
        with contents.open(str(name)) as file:
            rows = tasks_of(KeptLog(file, contents.stat(str(name)).length).lines(of), of)
    seconds = time.perf_counter() - started
    if len(rows) != tasks:
        raise RuntimeError(f"{len(rows)} tasks were found, and there are {tasks}")
    return seconds


def measure(run: Run) -> list[Row]:
    """Three rows: stages one after the other, all stages in turn, and the time of recording with keeping beside without."""
    stages = run.size(200, 4)
    rows, costs = [], []
    for name, in_turn in (("one stage after the other", False), ("all stages in turn", True)):
        log, size = write_log(run.root(), stages, in_turn=in_turn)
        root = run.root()
        without = kvwal("record", str(run.root()), str(log), "--archive", "none")
        keeping = kvwal("record", str(root), str(log), "--keep-logs", "--archive", "none")
        costs.append((without.cpu_seconds, keeping.cpu_seconds))
        baselines, ours, ran = [], [], []
        for _ in range(run.rounds(5)):
            baselines.append(seconds_of_reading(log, stages // 2, PER_STAGE))
            ours.append(in_child(f"{MODULE}:read_tasks", root=str(root), stage=stages // 2, tasks=PER_STAGE))
            ran.append(tasks_of_stage(root, stages // 2, PER_STAGE))
        kept = sum(path.stat().st_size for path in root.glob("default/local/event-logs/*/content/*/*"))
        notes = {
            "size of the log, MB": size / 1e6,
            "size of the kept log, MB": kept / 1e6,
            "`kvwal jobs --tasks --json` from start to exit, s": statistics.median(each.seconds for each in ran),
            "the same, on a processor, s": statistics.median(each.cpu_seconds for each in ran),
        }
        rows.append(absolute_row(f"1,000 tasks, {name}", "s", baselines, ours, "at most", 1.0, notes))
    recording, both = (list(column) for column in zip(*costs, strict=True))
    rows.append(unranked_row("Recording a log and keeping it", "s on a processor", recording, both))
    return rows
