"""Seeds of the simulation, each an interleaving of its own, and each replays. `make soak` runs new ones."""

from __future__ import annotations

import pytest

from tests.simulation.run import run_many, run_seed

SEEDS = range(20_000, 20_030)


@pytest.mark.timeout(1800)
def test_seeds() -> None:
    tally = run_many(SEEDS)
    assert [outcome.seed for outcome in tally.failed] == []
    assert len(tally.met) > 10, "a simulation that meets nothing shows nothing"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_is_the_same_every_time(seed: int) -> None:
    once, again = run_seed(seed), run_seed(seed)
    assert once.failure is None
    assert [str(line) for line in once.trace] == [str(line) for line in again.trace]
    assert len(once.trace) > 20
