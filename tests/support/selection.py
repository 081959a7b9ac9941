"""Which tests a run takes: a sample of the long ones, the others of them, or all.

A test is marked `long` where the suite has several of its kind and its own time is felt: mostly tests that start a cluster.
`make test` takes all tests that are not long, and of the long ones one of each kind, which the seed chooses; the kinds are the
folders of tests/. One marked `long(minutes=2)` is never chosen. `make test-long` takes the long tests that `make test` left out.
A test marked `loop` repeats one proof many times: `make test` runs it with few rounds, `make test-long` with all of them (the
fixture `whole`). With EVERY=4 `make test-long` takes one of four shares. Four runs with seeds that follow one another take all.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
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


def share_of(names: Iterable[str], every: int, seed: int) -> set[str]:
    """One of `every` shares of the names, which the seed chooses. Each name is in one of them; those of a file are dealt out."""
    return set(sorted(names)[seed % every :: every])
