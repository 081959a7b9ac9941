"""Which tests a run takes: a sample of the long ones, the others of them, or all.

A test is marked `long` where the suite has several of its kind and its own time is felt: mostly tests that start a cluster.
`make test` takes all tests that are not long, and one long test of each file, which the seed chooses; `make test-long` takes
the long tests that `make test` left out. A test marked `loop` repeats one proof many times: `make test` runs it with few
rounds, `make test-long` with all of them (the fixture `whole`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal

Part = Literal["all", "sample", "rest"]


def left_out(long: Iterable[str], part: Part, seed: int) -> set[str]:
    """Those of the node ids `long` that a run of this part with this seed does not take."""
    by_file: dict[str, list[str]] = {}
    for name in sorted(long):
        by_file.setdefault(name.partition("::")[0], []).append(name)
    sample = {random.Random(f"{seed} {file}").choice(names) for file, names in by_file.items()}
    every = {name for names in by_file.values() for name in names}
    return {"all": set[str](), "sample": every - sample, "rest": sample}[part]
