"""Shapes of data: what random data hardly ever is. Laws draw them beside random data.

A shape is deterministic: its name, a count and a seed make the same changes in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

HUGE = 1 << 20
TTL_MS = 10_000


class ShapedChange(NamedTuple):
    """A change: a put, or a delete if the value is None. `ttl_ms` is 0 for never."""

    key: str
    value: bytes | None
    ttl_ms: int = 0


class Shaped(NamedTuple):
    """The changes of a shape, in order."""

    name: str
    changes: list[ShapedChange]

    def __repr__(self) -> str:
        return f"Shaped({self.name!r}, {len(self.changes)} changes)"

    def latest(self, *, expired: bool = False) -> dict[str, bytes]:
        """The live values after all changes; `expired`: after the time to live of each, too."""
        last = {change.key: change for change in self.changes}
        return {
            key: change.value
            for key, change in last.items()
            if change.value is not None and not (expired and change.ttl_ms)
        }


def _mixed(count: int, chance: random.Random) -> list[ShapedChange]:
    keys = [f"k{chance.randrange(1 + count // 3)}" for _ in range(count)]
    return [ShapedChange(key, chance.choice([None, chance.randbytes(chance.randrange(200))])) for key in keys]


def _one_huge(count: int, chance: random.Random, huge: int = HUGE) -> list[ShapedChange]:
    changes = [ShapedChange(f"k{number}", b"small") for number in range(count)]
    changes.insert(chance.randrange(count + 1), ShapedChange("huge", chance.randbytes(huge)))
    return changes


def _only_deletes(count: int, chance: random.Random) -> list[ShapedChange]:
    return [ShapedChange(f"k{chance.randrange(count)}", None) for _ in range(count)]


SHAPES: dict[str, Callable[[int, random.Random], list[ShapedChange]]] = {
    "mixed": _mixed,
    "all equal": lambda count, _: [ShapedChange(f"job-{number:07}", b'{"state":"DONE"}') for number in range(count)],
    "all tiny": lambda count, _: [ShapedChange(chr(33 + number % 90), b"") for number in range(count)],
    "one huge": _one_huge,
    "many versions of one key": lambda count, _: [ShapedChange("k", b"%d" % number) for number in range(count)],
    "very many of a kind": lambda count, _: [
        ShapedChange(f"{number:x}", b"%x" % number) for number in range(4 * count)
    ],
    "only deletes": _only_deletes,
    "only expiring": lambda count, _: [ShapedChange(f"k{number}", b"v", TTL_MS) for number in range(count)],
}


def shaped(name: str, count: int, seed: int, huge: int = HUGE) -> Shaped:
    """The changes of the shape `name`: about `count`. A huge value has `huge` bytes."""
    chance = random.Random(seed)
    return Shaped(name, _one_huge(count, chance, huge) if name == "one huge" else SHAPES[name](count, chance))


def shapes(most: int, huge: int = HUGE) -> st.SearchStrategy[Shaped]:
    """Changes of any shape: about 1 to `most` of them. A huge value has `huge` bytes."""
    names, counts, seeds = st.sampled_from(sorted(SHAPES)), st.integers(1, most), st.integers(0, 1 << 32)
    return st.builds(shaped, names, counts, seeds, st.just(huge))
