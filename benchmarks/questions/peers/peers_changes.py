"""Deletes, and puts that expire, from eight threads, beside the stores that have them."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Question, Row, Run
from benchmarks.peers import rounds
from benchmarks.peers.contestants import able

QUESTION = Question(
    "peers_changes",
    "How fast are deletes, and puts with a time to live, beside the peers?",
    "the peer that the row names, from eight threads, each change by itself and durable.",
    "putting what is deleted.",
)
THREADS = 8


def measure(run: Run) -> list[Row]:
    """A row for each kind of change and each peer."""
    count = run.size(3_000, 200)
    deletes = partial(rounds.drive, run, function="deletes", count=count, threads=THREADS)
    expiring = partial(rounds.drive, run, function="expiring", count=count, threads=THREADS)
    return [
        *rounds.rows("deletes", "deletes/s", rounds.contest(run, able("reads"), 2, deletes), {}),
        *rounds.rows("puts with a ttl", "puts/s", rounds.contest(run, able("ttl"), 2, expiring), {}),
    ]
