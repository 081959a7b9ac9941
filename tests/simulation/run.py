"""Runs seeds: one again, many in a row, or new ones until the time is over.

python -m tests.simulation.run --seed N                   one seed, with its trace if it fails (--trace: always)
python -m tests.simulation.run --seeds COUNT [--first N]  that many, one after the other
python -m tests.simulation.run --seconds S                new ones for that long

With --report FILE the figures of a run go between the marks of that page. Exit code 1 if a seed failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from tests.simulation.machine.garbage import collected_by_seeds
from tests.simulation.machine.ports import in_place
from tests.simulation.scenario import Scenario
from tests.simulation.world import Happened, World

BEGIN = "<!-- figures of a run -->"
END = "<!-- end of the figures -->"
CHUNK = 50
NOTICED = 300
"""Seeds, of which one at least fails in a store that is broken on purpose."""


class Outcome(NamedTuple):
    """What came of a seed: why it failed (None: it did not), what it met, and its trace."""

    seed: int
    failure: BaseException | None
    events: Counter[str]
    trace: list[Happened]


def run_seed(seed: int) -> Outcome:
    """One seed; always the same."""
    with collected_by_seeds():
        return _ran(seed)


def _ran(seed: int) -> Outcome:
    world = World(seed)
    failure: BaseException | None = None
    with in_place(world):
        try:
            world.loop.run_until_complete(Scenario(world).run())
        except BaseException as error:
            failure = error
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            world.close()
    return Outcome(seed, failure, world.events, world.trace)


def is_noticed(first: int) -> bool:
    """Whether a store that is broken on purpose fails in one of `NOTICED` seeds from `first` on."""
    return any(run_seed(seed).failure is not None for seed in range(first, first + NOTICED))


class Tally(NamedTuple):
    """Many seeds: how many passed, those that failed, and how many seeds met each event."""

    passed: int
    failed: list[int]
    met: Counter[str]

    def and_also(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(self.passed + other.passed, self.failed + other.failed, self.met + other.met)


def run_many(seeds: Iterable[int]) -> Tally:
    """One seed after the other; a failing one is printed, and the rest still run."""
    passed, failed, met = 0, list[int](), Counter[str]()
    for seed in seeds:
        outcome = run_seed(seed)
        met.update(outcome.events.keys())
        if outcome.failure is None:
            passed += 1
            continue
        failed.append(seed)
        print(f"seed {seed}: {outcome.failure}\n    again: python -m tests.simulation.run --seed {seed}", flush=True)
    return Tally(passed, failed, met)


def run_beside(seeds: Sequence[int], processes: int) -> Tally:
    """As `run_many`, in several processes: a seed is one thread."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    with multiprocessing.Pool(processes) as pool:
        return reduce(Tally.and_also, pool.imap_unordered(run_many, chunks))


def new_seeds(seconds: float) -> Iterator[int]:
    """Seeds that nobody chose, for so many seconds."""
    first, end = secrets.randbits(40), time.monotonic() + seconds
    while time.monotonic() < end:
        yield first
        first += 1


def figures(tally: Tally) -> str:
    """What a run met, as a page shows it."""
    count = tally.passed + len(tally.failed)
    lines = [
        f"{date.today()}: {tally.passed:,} of {count:,} seeds passed.",
        "",
        "| what | seeds that met it |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| {event} | {number:,} |" for event, number in sorted(tally.met.items()))])


def write_report(page: Path, text: str) -> None:
    """Put the figures between the marks of a page."""
    before, mark, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise SystemExit(f"{page} has no place for the figures, between {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{end}{after}")


def main() -> int:
    """The command."""
    options = _parser().parse_args()
    if options.seed is not None:
        return _one(options.seed, options.trace)
    if options.seeds:
        tally = run_beside(range(options.first, options.first + options.seeds), options.processes)
    else:
        tally = run_many(new_seeds(options.seconds))
    print(figures(tally))
    if options.report:
        write_report(options.report, figures(tally))
    return 1 if tally.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description="Runs seeds of the simulation.")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--seed", type=int, help="this one")
    chosen.add_argument("--seeds", type=int, help="so many, from --first on")
    chosen.add_argument("--seconds", type=float, help="new ones, for so long")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="for --seeds")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    parser.add_argument("--report", type=Path, help="a page that shows the figures")
    return parser


def _one(seed: int, trace: bool) -> int:
    outcome = run_seed(seed)
    if trace or outcome.failure:
        for line in outcome.trace:
            print(line)
    if outcome.failure:
        traceback.print_exception(outcome.failure)
    for event, count in sorted(outcome.events.items()):
        print(f"{count:6} {event}")
    return 1 if outcome.failure else 0


if __name__ == "__main__":
    sys.exit(main())
