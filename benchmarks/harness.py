"""The harness of all questions: scratch folders, rounds, rows, stored results, and the description of the machine.

A figure on a shared disk means little by itself. So every figure stands beside a baseline, and the two are measured in turn:
baseline, ours, baseline, ours. The ratio of a row is the median of the ratios of those pairs. Stored results call the baseline
`limit`.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RATIO = "× the baseline"
ADDED = "ms added"
LOAD = "load"
"""What a result calls the average number of processes that ran or waited while it was measured, ours among them."""
SCRATCH = ROOT / "data" / "bench"


class Question(msgspec.Struct, frozen=True, rename={"baseline": "limit"}):
    """A question: the heading on the page, a sentence on the baseline, and a sentence on what the figures leave out."""

    name: str
    title: str
    baseline: str
    not_counted: str


class Row(msgspec.Struct, frozen=True, rename={"name": "what", "baselines": "limits"}):
    """One figure. `ours` and `baselines` are the rounds in the order they ran. `figure` is compared with `target`."""

    name: str
    unit: str
    ours: list[float]
    baselines: list[float]
    figure: float
    figure_is: str
    target: float
    must: Literal["at least", "at most", "no target"]
    notes: dict[str, float] = {}

    @property
    def met(self) -> bool:
        """Whether the figure reaches the target. One without a target does."""
        if self.must == "no target":
            return True
        return self.figure >= self.target if self.must == "at least" else self.figure <= self.target

    @property
    def rounds(self) -> list[float]:
        """The figure of each round, if `figure` is their median; else empty."""
        if self.figure_is == self.unit:
            return self.ours
        if self.figure_is in (RATIO, ADDED):
            return pairs(self.figure_is, self.baselines, self.ours)
        return []


class Result(msgspec.Struct, frozen=True):
    """The answer to one question, as benchmarks/results stores it."""

    question: Question
    rows: list[Row]
    host: dict[str, str]
    quick: bool = False


class Run:
    """One run of one question. `quick` runs the code once on tiny inputs. `folder` is deleted afterwards.

    `most` is the most rounds of anything, for a machine or an evening that has no time for all of them.
    """

    def __init__(self, folder: Path, quick: bool, most: int | None = None) -> None:
        self.folder = folder
        self.quick = quick
        self._most = 1 if quick else most

    def rounds(self, wanted: int) -> int:
        """How many rounds to do, of as many as are wanted."""
        return wanted if self._most is None else min(wanted, self._most)

    def size(self, full: int, quick: int) -> int:
        """The size of the input: `full`, or `quick` in a quick run."""
        return quick if self.quick else full

    def root(self) -> Path:
        """A new, empty folder on the measured disk."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def interleave(
        self, rounds: int, baseline: Callable[[], float], ours: Callable[[], float]
    ) -> tuple[list[float], list[float]]:
        """Measure the baseline and ours in turn, `rounds` times. Returns (baselines, ours)."""
        baselines, figures = [], []
        for _ in range(self.rounds(rounds)):
            baselines.append(baseline())
            figures.append(ours())
        return baselines, figures


def pairs(figure_is: str, baselines: list[float], ours: list[float]) -> list[float]:
    """Ours beside the baseline of the same round: the ratio, or the difference."""
    rounds = zip(baselines, ours, strict=True)
    return [mine / baseline if figure_is == RATIO else mine - baseline for baseline, mine in rounds]


def ratio_row(
    name: str,
    unit: str,
    baselines: list[float],
    ours: list[float],
    must: Literal["at least", "at most"],
    target: float,
    notes: dict[str, float] | None = None,
) -> Row:
    """A row whose figure is the median of the ratios of ours to the baseline, pair by pair."""
    figure = statistics.median(pairs(RATIO, baselines, ours))
    return Row(name, unit, ours, baselines, figure, RATIO, target, must, notes or {})


def unranked_row(
    name: str, unit: str, baselines: list[float], ours: list[float], notes: dict[str, float] | None = None
) -> Row:
    """A row of ratios that is shown without a target."""
    figure = statistics.median(pairs(RATIO, baselines, ours))
    return Row(name, unit, ours, baselines, figure, RATIO, 0, "no target", notes or {})


def absolute_row(
    name: str,
    unit: str,
    baselines: list[float],
    ours: list[float],
    must: Literal["at least", "at most"],
    target: float,
    notes: dict[str, float] | None = None,
) -> Row:
    """A row whose figure is the median of ours. The baseline stands beside it for scale."""
    return Row(name, unit, ours, baselines, statistics.median(ours), unit, target, must, notes or {})


def rate(count: int, work: Callable[[], object]) -> float:
    """Operations a second of `work`, which does `count` operations."""
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def percentile(samples: list[float], percent: float) -> float:
    """The sample below which `percent` of them lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def peak_memory() -> float:
    """The peak resident memory of this process in MiB, without its children."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise LookupError("the kernel does not report VmHWM in /proc/self/status")


def in_child(function: str, **arguments: Any) -> Any:
    """Run `module:function` in a fresh interpreter, so that its memory starts from nothing. The result comes back as JSON."""
    command = [sys.executable, "-m", "benchmarks.child", function, json.dumps(arguments)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if child.returncode:
        raise RuntimeError(f"{function} ended with {child.returncode}:\n{child.stderr[-2000:]}")
    return json.loads(child.stdout.splitlines()[-1])


class SteppedProcess:
    """A child process that does what it is told by lines, and answers with lines of JSON."""

    def __init__(self, words: Sequence[str], errors: Path) -> None:
        """`words` come after the interpreter's name. Its standard error goes into the file `errors`."""
        self._errors = errors
        with errors.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=ROOT,
            )

    def tell(self, line: str = "") -> None:
        """Say what to do next."""
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)

    def answer(self) -> Any:
        """What it says next. `RuntimeError`, with the end of its standard error, if it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self._errors.read_text()[-2_000:])
        return json.loads(line)

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def scratch(quick: bool, most: int | None = None) -> Iterator[Run]:
    """A run in a new folder on the disk of the checkout. The folder is deleted afterwards."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    try:
        yield Run(folder, quick, most)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def host() -> dict[str, str]:
    """The facts of the machine that a reader needs to judge absolute figures."""
    return {
        "processor": processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB",
        "kernel": platform.release(),
        "file system": file_system(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        LOAD: f"{os.getloadavg()[1]:.1f}",
    }


def processor() -> str:
    """The name of the processor in /proc/cpuinfo."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def file_system() -> str:
    """The type of the file system of the checkout: that of the longest mount point above it."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(mount_point, kind) for mount_point, kind in mounts if ROOT.is_relative_to(mount_point)]
    return max(above, key=lambda mount: len(mount[0]))[1]


def save(result: Result) -> Path:
    """Store a result as benchmarks/results/<question>.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{result.question.name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rounded(result)), indent=1) + b"\n")
    return path


def rounded(result: Result) -> Result:
    """The same result with figures of four digits: further digits are noise."""
    plain = msgspec.json.decode(msgspec.json.encode(result))
    for row in plain["rows"]:
        for name in ("ours", "limits"):
            row[name] = [float(f"{value:.4g}") for value in row[name]]
        row["figure"] = float(f"{row['figure']:.4g}")
        row["notes"] = {name: float(f"{value:.4g}") for name, value in row["notes"].items()}
    return msgspec.convert(plain, Result)


def load() -> list[Result]:
    """All stored results, by name."""
    return [msgspec.json.decode(path.read_bytes(), type=Result) for path in sorted(RESULTS.glob("*.json"))]
