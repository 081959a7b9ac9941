"""A guard against a loss of speed: two ratios to a bare loop in the same minute, with limits far below what is usual.

    python -m benchmarks.regression

It takes under a minute. It exits with 1 if a ratio is below its limit in every one of its tries: a busy machine slows both
sides of a ratio, but not always both at once.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

from benchmarks.baselines import bare_appends
from benchmarks.harness import Run, scratch
from benchmarks.questions.embedded.batches import put_batches
from benchmarks.questions.embedded.threads import put_from_threads

SECONDS = 0.8
ROUNDS = 3
TRIES = 2

# Each with the ratio that a healthy kvwal passes by far: 2.7 and 86 on two cores.
LIMITS: dict[str, tuple[float, Callable[[Run], float]]] = {
    "64 threads": (1.0, lambda run: put_from_threads(run.root(), 64, 1, SECONDS)),
    "put_many of 1,000": (20.0, lambda run: put_batches(run.root(), 1000, 40)),
}


def ratio(run: Run, work: Callable[[Run], float]) -> float:
    """The median ratio of our rate to that of the bare loop, measured in turn."""
    baselines, ours = run.interleave(ROUNDS, lambda: bare_appends(run.folder, SECONDS / 2), lambda: work(run))
    return statistics.median(mine / baseline for baseline, mine in zip(baselines, ours, strict=True))


def reaches(measure: Callable[[], float], limit: float) -> tuple[bool, list[float]]:
    """Whether one of the tries reaches the limit, and the ratios of those that it took."""
    seen: list[float] = []
    while len(seen) < TRIES:
        seen.append(measure())
        if seen[-1] >= limit:
            return True, seen
    return False, seen


def main() -> int:
    """0 if every ratio reaches its limit; 1 if one does not."""
    failed = []
    for name, (limit, work) in LIMITS.items():
        with scratch(quick=False) as run:
            reached, seen = reaches(lambda run=run, work=work: ratio(run, work), limit)  # type: ignore[misc]
        print(
            f"{name}: {seen[-1]:.3g} × the bare loop, at least {limit:g}{'' if reached else ': TOO SLOW'}", flush=True
        )
        if not reached:
            failed.append(name)
    if failed:
        print(
            f"Slower than every earlier version: {', '.join(failed)}. `make bench ARGS='threads batches'` measures more."
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
