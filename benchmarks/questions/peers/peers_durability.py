"""How often each contestant asks the disk to make data durable, counted by strace."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial

import msgspec

from benchmarks.harness import ROOT, Question, Row, Run, absolute_row
from benchmarks.peers import java, rounds, syncs
from benchmarks.peers.contestants import CONTESTANTS, able
from benchmarks.peers.engines.base import Opening
from benchmarks.peers.engines.opening import open_engine
from benchmarks.peers.servers import server

QUESTION = Question(
    "peers_durability",
    "Do kvwal and its peers promise the same?",
    "none. strace counts the fsync, fdatasync, msync, sync and syncfs of the process, its threads and its children, while one "
    "producer puts one value at a time. A put that is durable before it returns needs one of these calls at least.",
    "what a peer syncs while it opens and closes, which adds a few calls in a thousand.",
)
LEAST = 0.99
"""One call for each put. A call may serve the put before the first is counted, so a hair less."""


def measure(run: Run) -> list[Row]:
    """A row for each contestant: calls for each put."""
    if shutil.which("strace") is None:
        raise RuntimeError("strace is not installed, and counts the calls. apt-get install strace brings it.")
    figures = rounds.contest(run, able("recovery"), 1, partial(count, run, run.size(1_000, 50)))
    return [
        absolute_row(
            f"one producer: {CONTESTANTS[name].label}", "calls/put", [], rounds.rates(each), "at least", LEAST,
            {"puts": each[0]["puts"]},
        )
        for name, each in figures.items()
    ]  # fmt: skip


def count(run: Run, puts: int, name: str) -> rounds.Figures:
    """The calls of one contestant for each of so many puts."""
    folder, report = run.root(), run.root() / "calls"
    arguments = {"name": name, "folder": str(folder), "count": puts, "batch": 1, "value": 100}
    if CONTESTANTS[name].kind == "server":
        with server(name, folder, syncs.wrapper(report)) as opening:
            engine = open_engine(name, Opening(folder, opening.port))
            for number in range(puts):
                engine.put({f"{number:08d}": b"x" * 100})
            engine.close()
    else:
        if CONTESTANTS[name].kind == "java":
            command = java.command(name, "fill", folder=folder, batch=1, count=puts, value=100)
        else:
            typed = msgspec.json.encode({**arguments, "port": 0}).decode()
            command = [sys.executable, "-m", "benchmarks.child", f"{rounds.DRIVE}:fill", typed]
        subprocess.run([*syncs.wrapper(report), *command], cwd=ROOT, capture_output=True, check=True)
    return {"rate": syncs.total(report) / puts, "puts": puts}
