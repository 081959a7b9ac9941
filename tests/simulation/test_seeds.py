"""500 seeds of the simulation, each an interleaving of its own; they meet all that a simulation is for, and each replays."""

from __future__ import annotations

import random

import pytest

from tests.simulation.run import run_many, run_seed

SEEDS = 500
MUST_MEET = (
    "a condition failed",
    "a condition held",
    "a lost disk",
    "a take-over",
    "a torn tail was cut",
    "a writing task was cancelled",
    "commit unknown",
    "job: Archive -> Archived",
    "job: Checkpoint -> Checkpointed",
    "kill",
    "killed while archive",
    "killed while checkpoint",
    "killed while opening",
    "power cut",
    "refused: LogFailed",
    "refused: StorageFull",
    "restored elsewhere",
    "the clock was set back",
    "the past was read",
)


@pytest.mark.timeout(1800)
def test_500_seeds() -> None:
    first = random.randrange(1 << 40)
    print(f"seeds {first} to {first + SEEDS - 1}")
    tally = run_many(range(first, first + SEEDS))
    assert [outcome.seed for outcome in tally.failed] == []
    assert [event for event in MUST_MEET if not tally.met[event]] == []


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 8, 13])
def test_a_seed_is_the_same_every_time(seed: int) -> None:
    once, again = run_seed(seed), run_seed(seed)
    assert once.failure is None
    assert [str(line) for line in once.trace] == [str(line) for line in again.trace]
    assert len(once.trace) > 20
