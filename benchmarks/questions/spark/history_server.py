"""The list of all applications: `kvwal jobs`, beside Spark's History Server over the event logs of the same applications."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import zstandard

from benchmarks.harness import Question, Row, Run, ratio_row
from benchmarks.nodes import CLUSTER, nodes
from benchmarks.questions.spark.follower import golden
from tests.support.history_server.server import history_server, listed
from tests.support.ports import free_port

QUESTION = Question(
    "history_server",
    "How long does it take until the list of 2,600 applications is there?",
    "Spark's History Server, from its start with an empty memory until its REST API lists every application.",
    "recording the event logs: kvwal reads each log once, when it is written; a History Server reads them at each start."
    " `kvwal jobs` prints the latest 50 of them."
    " The logs are copies of one that Spark wrote, compressed with zstd, in a folder.",
)
LOGS, FEW = 2_600, 20
LOOK_SECONDS = 0.05
SHOWN = 50
"""Applications that `kvwal jobs` prints."""


def write_logs(folder: Path, count: int) -> None:
    """Event logs of so many applications, with an id each."""
    text, app = golden()
    compressor = zstandard.ZstdCompressor()
    for number in range(count):
        name = f"local-{number:0{len(app) - 6}d}"
        (folder / f"{name}.zstd").write_bytes(compressor.compress(text.replace(app, name.encode())))


def seconds_of_history_server(logs: Path, count: int, log: Path) -> float:
    """Seconds from its start until its list has so many applications."""
    port, started = free_port(), time.perf_counter()
    with history_server(logs, port, log) as server:
        while listed(port) < count:
            if server.poll() is not None:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(LOOK_SECONDS)
    return time.perf_counter() - started


def kvwal(*arguments: str) -> str:
    """What a command of kvwal prints."""
    command = [str(Path(sys.executable).with_name("kvwal")), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def seconds_of_listing(count: int, *arguments: str) -> float:
    """Seconds of `kvwal jobs`, from start to exit. It prints the latest applications, and looks through all of them."""
    started = time.perf_counter()
    answer = kvwal("jobs", *arguments)
    seconds = time.perf_counter() - started
    if (found := answer.count("local-")) != min(count, SHOWN):
        raise RuntimeError(f"{found} applications are listed, and there are {count}")
    return seconds


def measure(run: Run) -> list[Row]:
    """Two rows: from a root, and from a cluster of three nodes."""
    count, logs, root = run.size(LOGS, FEW), run.root(), run.root()
    write_logs(logs, count)
    kvwal("record", str(root), str(logs), "--archive", "none")
    with nodes(run.root(), 3, run.root()) as cluster:
        location = (cluster.location, "--cluster", CLUSTER)
        kvwal("record", location[0], str(logs), *location[1:])
        asked = {"a root": (str(root),), "a cluster of three nodes": location}
        ours: dict[str, list[float]] = {name: [] for name in asked}
        baselines = []
        for _ in range(run.size(3, 1)):
            baselines.append(seconds_of_history_server(logs, count, run.folder / "history-server.log"))
            for name, arguments in asked.items():
                ours[name].append(seconds_of_listing(count, *arguments))
    return [
        ratio_row(f"2,600 applications, from {name}", "s", baselines, seconds, "at most", 0.05)
        for name, seconds in ours.items()
    ]
