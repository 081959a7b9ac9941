"""Which tests a run takes: a sample of the long ones, the others of them, or all.

A test is marked `long` where the suite has several of its kind and its own time is felt: mostly tests that start a cluster.
`make test` takes all tests that are not long, and of the long ones one of each kind, which the seed chooses; the kinds are the
folders of tests/. One marked `long(minutes=2)` is never chosen. `make test-long` takes the long tests that `make test` left out.
Of the cases of a parametrized test marked `variants(2)`, which prove one thing, `make test` takes two, which the seed chooses.
A test marked `loop` repeats one proof many times: `make test` runs it with few rounds, `make test-long` with all of them (the
fixture `whole`); so it is with the examples of hypothesis (`tests.support.chance.examples`). With EVERY=4 `make test-long` takes
one of four shares. Four runs with seeds that follow one another take all.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Literal

Part = Literal["all", "sample", "rest"]


def left_out(long: Iterable[str], part: Part, seed: int, longest: Iterable[str] = ()) -> set[str]:
    """Those of the node ids `long` that a run of this part with this seed does not take. The `longest` are in no sample."""
    by_kind: dict[str, dict[str, list[str]]] = {}
    for name in sorted(set(long) - set(longest)):
        file = name.partition("::")[0]
        kind = "/".join(file.split("/")[:2])
        by_kind.setdefault(kind, {}).setdefault(file, []).append(name)
    sample = set()
    for kind, files in by_kind.items():
        chance = random.Random(f"{seed} {kind}")
        sample.add(chance.choice(files[chance.choice(sorted(files))]))
    return {"all": set[str](), "sample": set(long) - sample, "rest": sample}[part]


def variants_left_out(taken: Mapping[str, int], seed: int) -> set[str]:
    """Those that `make test` does not take. `taken` has the node ids, and how many of its test a run takes."""
    by_test: dict[str, list[str]] = {}
    for name in sorted(taken):
        by_test.setdefault(name.partition("[")[0], []).append(name)
    left = set()
    for test, names in by_test.items():
        left |= set(names) - set(random.Random(f"{seed} {test}").sample(names, min(len(names), taken[names[0]])))
    return left


def share_of(names: Iterable[str], every: int, seed: int) -> set[str]:
    """One of `every` shares of the names, which the seed chooses. Each name is in one of them; those of a file are dealt out."""
    return set(sorted(names)[seed % every :: every])
