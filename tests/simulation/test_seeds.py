"""500 seeds of the simulation, each an interleaving of its own. Together they meet all events that a simulation is for.

The 500 seeds are always the same; `make test` runs 30 of them, and `make soak` runs new ones.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from tests.simulation.profile import SHAPES
from tests.simulation.run import run_beside, run_seed
from tests.support.chance import new_seed

SEEDS = range(20_000, 20_500)
SAMPLE = 30
PROCESSES = 2
MUST_MEET = (
    "a condition failed",
    "a condition held",
    "a disk gave other bytes of a claim file",
    "a lost disk",
    "a process stood still",
    "a rewrite or gc under a read of the past",
    "a take-over",
    "a torn tail was cut",
    "a snapshot had deltas",
    "a write of unknown outcome was there",
    "a writing task was cancelled",
    "an operator's gc removed objects",
    "an operator's rewrite made objects",
    "bucket: a question was lost",
    "bucket: the answer to a put was lost",
    "commit unknown",
    "content: bytes of the past were read",
    "content: copy",
    "content: delete",
    "content: put",
    "content: transaction",
    "constants were shrunk",
    "datasync failed",
    "job: Archive -> Archived",
    "job: Archive -> Failed",
    "job: Checkpoint -> Checkpointed",
    "job: Checkpoint -> Failed",
    "job: Clean -> Cleaned",
    "kill",
    "killed while archive",
    "killed while checkpoint",
    "killed while opening",
    "killed while restore",
    "killed while rewrite",
    "killed while serving",
    "killed while take-over",
    "power cut",
    "queue: a block raised",
    "queue: a large item in a put",
    "queue: a large item in a work",
    "queue: a task was cancelled",
    "queue: commit unknown",
    "queue: put",
    "queue: take",
    "queue: work",
    "refused: ClockSkew",
    "refused: LogFailed",
    "refused: StorageFull",
    "restored elsewhere",
    *(f"shape: {shape}" for shape in SHAPES),
    "the clock was set back",
    "the end of the log was lost, as the policy or the lost disk allows",
    "the past was read",
    *(f"values: a large one in a {kind}" for kind in ("put", "put_many", "transaction", "put_if_absent", "replace")),
    "queue: an item that is absent came from the archive",
    "queue: an item that is damaged came from the archive",
    "values: a disk did not give bytes",
    "values: a reader showed what was replaced and cleaned away",
    "values: bytes of the past were read",
    "values: bytes that are absent came from the archive",
    "values: bytes that are absent were refused",
    "values: bytes that are damaged came from the archive",
    "values: bytes that are damaged were refused",
    "values: restored elsewhere with their bytes",
    "writes of unknown outcome were not there",
)


@pytest.mark.loop
@pytest.mark.timeout(1800)
def test_500_seeds(whole: bool) -> None:
    seeds = SEEDS if whole else random.Random(new_seed()).sample(SEEDS, SAMPLE)
    tally = run_beside(seeds, PROCESSES)
    assert tally.failed == []
    assert tally.passed == len(seeds)
    if not whole:  # an event that is rare may be missing from few seeds
        return
    assert [event for event in MUST_MEET if not tally.met[event]] == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_is_the_same_every_time(seed: int) -> None:
    once, again = run_seed(seed), run_seed(seed)
    assert once.failure is None
    assert [str(line) for line in once.trace] == [str(line) for line in again.trace]
    assert len(once.trace) > 20


@pytest.mark.long
def test_a_seed_is_the_same_in_every_process() -> None:
    """However Python orders a set there."""
    ran = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation.run", "--seed", "8", "--trace"],
            env={**os.environ, "PYTHONHASHSEED": order},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for order in ("1", "2")
    ]
    assert ran[0] == ran[1]
    assert ran[0].count("\n") > 20
