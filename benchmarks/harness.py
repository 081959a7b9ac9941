"""What every question needs: where to write, how to repeat, what a row says, and which machine this is.

A figure means little by itself on a shared disk, so every one stands beside a baseline, and the two are measured in turn:
baseline, ours, baseline, ours. The ratio of a row is the median of the ratios of those pairs. (The code, and what it keeps, call
the baseline `limit`.)
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RATIO = "× the baseline"
ADDED = "ms added"
SCRATCH = ROOT / "data" / "bench"


class Question(msgspec.Struct, frozen=True):
    """What is asked: the page's heading, the baseline in words, and what is left out of the figures."""

    name: str
    title: str
    limit: str
    not_counted: str


class Row(msgspec.Struct, frozen=True):
    """One figure. `ours` and `limits` are the rounds, in the order they ran; `figure` is what is held against `target`."""

    what: str
    unit: str
    ours: list[float]
    limits: list[float]
    figure: float
    figure_is: str
    target: float
    must: Literal["at least", "at most"]
    notes: dict[str, float] = {}

    @property
    def met(self) -> bool:
        """Whether the figure is on the right side of the target."""
        return self.figure >= self.target if self.must == "at least" else self.figure <= self.target

    @property
    def rounds(self) -> list[float]:
        """The figure of each round, of which `figure` is the median; empty where it is made in another way."""
        if self.figure_is == self.unit:
            return self.ours
        if self.figure_is in (RATIO, ADDED):
            return pairs(self.figure_is, self.limits, self.ours)
        return []


class Result(msgspec.Struct, frozen=True):
    """The answer to one question, as it is kept in benchmarks/results."""

    question: Question
    rows: list[Row]
    host: dict[str, str]
    quick: bool = False


class Run:
    """One run of one question: `quick` only tries whether it works, in `folder`, which is gone afterwards."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder = folder
        self.quick = quick

    def size(self, full: int, quick: int) -> int:
        """How much to do."""
        return quick if self.quick else full

    def root(self) -> Path:
        """A fresh, empty folder on the disk that is measured."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def interleave(
        self, rounds: int, limit: Callable[[], float], ours: Callable[[], float]
    ) -> tuple[list[float], list[float]]:
        """Both, in turn, `rounds` times: (limits, ours)."""
        limits, figures = [], []
        for _ in range(1 if self.quick else rounds):
            limits.append(limit())
            figures.append(ours())
        return limits, figures


def pairs(figure_is: str, limits: list[float], ours: list[float]) -> list[float]:
    """Ours beside the baseline of the same round: how many times as much, or how much more."""
    beside = zip(limits, ours, strict=True)
    return [mine / limit if figure_is == RATIO else mine - limit for limit, mine in beside]


def ratio_row(
    what: str,
    unit: str,
    limits: list[float],
    ours: list[float],
    must: Literal["at least", "at most"],
    target: float,
    notes: dict[str, float] | None = None,
) -> Row:
    """A row whose figure is ours divided by the baseline, pair by pair, then the median."""
    figure = statistics.median(pairs(RATIO, limits, ours))
    return Row(what, unit, ours, limits, figure, RATIO, target, must, notes or {})


def absolute_row(
    what: str,
    unit: str,
    limits: list[float],
    ours: list[float],
    must: Literal["at least", "at most"],
    target: float,
    notes: dict[str, float] | None = None,
) -> Row:
    """A row whose figure is ours itself; the baseline stands beside it for scale."""
    return Row(what, unit, ours, limits, statistics.median(ours), unit, target, must, notes or {})


def rate(count: int, work: Callable[[], object]) -> float:
    """How many a second, when `work` does `count` of them."""
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def percentile(samples: list[float], percent: float) -> float:
    """The sample below which `percent` of them lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def peak_memory() -> float:
    """The most memory this process ever had, in MiB; children do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise LookupError("this kernel does not tell a process's peak memory")


def in_child(function: str, **arguments: Any) -> Any:
    """Run `module:function` in a fresh interpreter and return what it returns, through JSON: memory starts from nothing."""
    command = [sys.executable, "-m", "benchmarks.child", function, json.dumps(arguments)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{function} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


@contextmanager
def scratch(quick: bool) -> Iterator[Run]:
    """A run in a folder of its own, on the disk the checkout is on."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    try:
        yield Run(folder, quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def host() -> dict[str, str]:
    """The machine: what a reader needs to judge the absolute figures."""
    return {
        "processor": processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB",
        "kernel": platform.release(),
        "file system": file_system(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def processor() -> str:
    """The processor's name as the kernel has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def file_system() -> str:
    """The kind of file system the checkout is on: that of the longest mount point above it."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(place, kind) for place, kind in mounts if ROOT.is_relative_to(place)]
    return max(above, key=lambda mount: len(mount[0]))[1]


def save(result: Result) -> Path:
    """Keep a result as benchmarks/results/<question>.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{result.question.name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rounded(result)), indent=1) + b"\n")
    return path


def rounded(result: Result) -> Result:
    """The same result with figures of four digits: more would be noise."""
    plain = msgspec.json.decode(msgspec.json.encode(result))
    for row in plain["rows"]:
        for name in ("ours", "limits"):
            row[name] = [float(f"{value:.4g}") for value in row[name]]
        row["figure"] = float(f"{row['figure']:.4g}")
        row["notes"] = {name: float(f"{value:.4g}") for name, value in row["notes"].items()}
    return msgspec.convert(plain, Result)


def load() -> list[Result]:
    """Every kept result, by name."""
    return [msgspec.json.decode(path.read_bytes(), type=Result) for path in sorted(RESULTS.glob("*.json"))]
