"""Memory under iterators: each shows, under any writes, the moment at which it was made, in order."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwal.entry import Entry, make_entry
from kvwal.structures.map import order
from kvwal.structures.map.view import KeyBounds
from kvwal.structures.memory import BusinessMemory
from tests.support.chance import examples
from tests.support.log.shapes import Shaped, shapes

CLASSES = ("bytes", "int", "str")
NOW = 1000


def change(chance: random.Random, keys: int, stamp: int) -> Entry:
    """A put, with or without an end, or a delete of some key."""
    key, key_class = b"%d" % chance.randrange(keys), chance.choice(CLASSES)
    if chance.random() < 0.45:
        return Entry(key, key_class, b"", "", True, stamp)
    return make_entry(key, key_class, b"v", "bytes", False, stamp, chance.choice([0, 0, NOW, NOW + 1]))


def live(model: dict[tuple[str, bytes], Entry], key_class: str | None, prefix: bytes) -> list[Entry]:
    return [
        entry
        for (name, key), entry in sorted(model.items())
        if key_class in (None, name) and key.startswith(prefix) and not 0 < entry.expires <= NOW
    ]


@settings(max_examples=examples(25))
@given(st.integers(0, 1 << 32), st.sampled_from([5, 60, 3000]))
def test_an_iterator_shows_its_moment_under_later_writes(seed: int, keys: int) -> None:
    chance = random.Random(seed)
    memory, model = BusinessMemory(lambda: NOW), dict[tuple[str, bytes], Entry]()
    state = memory.map
    going: list[tuple[Iterator[Entry], list[Entry], list[Entry]]] = []
    for stamp in range(60):
        group = [change(chance, keys, stamp) for _ in range(chance.choice([1, 3, keys // 4 + 1]))]
        memory.apply(group)
        for entry in group:
            model.pop((entry.key_class, entry.key), None)
            if not entry.deleted:
                model[entry.key_class, entry.key] = entry
        if chance.random() < 0.4:
            key_class, prefix = chance.choice([None, *CLASSES]), chance.choice([b"", b"1"])
            made = state.all_ordered() if key_class is None else state.ordered(key_class, prefix)
            going.append((made, live(model, key_class, prefix if key_class else b""), []))
        for iterator, _, seen in going:
            seen += [entry for entry in (next(iterator, None) for _ in range(chance.randrange(40))) if entry]
    for iterator, expected, seen in going:
        assert seen + list(iterator) == expected
    assert state.count() == len(live(model, None, b""))


BOUNDS = st.builds(
    KeyBounds,
    st.sampled_from([None, *CLASSES]),
    st.sampled_from([b"", b"1", b"27", b"9"]),
    st.sampled_from([None, b"", b"2", b"28", b"99999"]),
)


@settings(max_examples=examples(40))
@given(st.integers(0, 1 << 32), st.sampled_from([5, 60, 3000]), st.lists(st.tuples(BOUNDS, st.booleans()), min_size=4))
def test_a_range_shows_its_moment_in_both_directions(seed: int, keys: int, asked: list[tuple[KeyBounds, bool]]) -> None:
    """A range is the slice of a sorted dict that has the keys of its moment, under any later writes."""
    chance = random.Random(seed)
    memory, model = BusinessMemory(lambda: NOW), dict[tuple[str, bytes], Entry]()
    state = memory.map
    going: list[tuple[Iterator[Entry], list[Entry], list[Entry]]] = []
    for stamp, (bounds, reverse) in enumerate(asked):
        group = [change(chance, keys, stamp) for _ in range(chance.choice([1, 3, keys]))]
        memory.apply(group)
        for entry in group:
            model.pop((entry.key_class, entry.key), None)
            if not entry.deleted:
                model[entry.key_class, entry.key] = entry
        bounds = bounds if bounds.key_class else KeyBounds()
        expected = [entry for entry in live(model, bounds.key_class, b"") if bounds.has(entry.key_class, entry.key)]
        made = state.between(bounds, reverse=reverse)
        going.append((made, expected[::-1] if reverse else expected, []))
        for iterator, _, seen in going:
            seen += islice(iterator, chance.randrange(40))
    for iterator, expected, seen in going:
        assert seen + list(iterator) == expected


@settings(max_examples=examples(30))
@given(shapes(400, huge=3000), st.integers(1, 50), st.integers(1, 5))
def test_an_iterator_shows_its_moment_under_data_of_any_shape(shaped: Shaped, size: int, every: int) -> None:
    """Changes come in groups of `size`. After every few groups an iterator is made, and all iterators go on by some."""
    memory, model = BusinessMemory(lambda: NOW), dict[tuple[str, bytes], Entry]()
    state = memory.map
    going: list[tuple[Iterator[Entry], list[Entry], list[Entry]]] = []
    for start in range(0, len(shaped.changes), size):
        group = [
            make_entry(
                key.encode(), "str", value or b"", "" if value is None else "bytes", value is None, start,
                NOW + number % 2 if ttl_ms else 0,
            )
            for number, (key, value, ttl_ms) in enumerate(shaped.changes[start : start + size])
        ]  # fmt: skip
        memory.apply(group)
        for entry in group:
            model.pop((entry.key_class, entry.key), None)
            if not entry.deleted:
                model[entry.key_class, entry.key] = entry
        assert state.count() == len(live(model, None, b""))
        if start // size % every == 0:
            going.append((state.ordered("str", b"k"), live(model, "str", b"k"), []))
        for iterator, _, seen in going:
            seen += islice(iterator, every)
    for iterator, expected, seen in going:
        assert seen + list(iterator) == expected
    assert list(state.all_ordered()) == live(model, None, b"")


@settings(max_examples=10)
@given(st.integers(0, 1 << 32))
def test_an_order_is_that_of_its_keys(seed: int) -> None:
    chance = random.Random(seed)
    keys = {b"%d" % chance.randrange(100_000) for _ in range(7000)}
    built = order.build_order(order.listed(dict.fromkeys(keys)))  # type: ignore[arg-type]
    for _ in range(3000):
        key = b"%d" % chance.randrange(100_000)
        if chance.random() < 0.5:
            built.add(key)
            keys.add(key)
        else:
            built.discard(key)
            keys.discard(key)
    assert built.following(b"", None, 1 << 30) == sorted(keys)
    some = [key for key in sorted(keys) if b"2" <= key < b"3"]
    assert built.following(b"2", b"3", 1 << 30) == some
    assert built.following(b"2", b"3", 7) == some[:7]
    assert built.preceding(b"", None, 1 << 30) == sorted(keys, reverse=True)
    assert built.preceding(b"2", b"3", 1 << 30) == some[::-1]
    assert built.preceding(b"2", b"3", 7) == some[::-1][:7]
    assert built.preceding(b"3", b"2", 7) == built.following(b"3", b"2", 7) == []


def test_the_garbage_collector_leaves_out_the_keys_of_an_order() -> None:
    """While it looks at them all threads wait. The index has a list of the last key of each chunk."""
    built = order.build_order(order.listed({b"a key %d" % number: None for number in range(20_000)}))  # type: ignore[misc]
    gc.collect(0)
    known = [item for item in gc.get_objects() if isinstance(item, list | tuple)]
    assert sum(isinstance(key, bytes) and key.startswith(b"a key ") for item in known for key in item) < 200
    assert len(built.following(b"", None, 1 << 30)) == 20_000


def test_keys_are_brought_in_order_beside_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two steps of the reader that brings a million keys in order, others write: here from that very thread."""
    memory = BusinessMemory(lambda: NOW)
    state = memory.map
    model = {b"%d" % number: Entry(b"%d" % number, "str", b"", "bytes", False, 1) for number in range(30_000)}
    memory.apply(list(model.values()))
    chance = random.Random(1)
    steps = 0

    def write() -> None:
        nonlocal steps
        steps += 1
        for _ in range(50):
            number = b"%d" % chance.randrange(60_000)
            deleted = chance.random() < 0.5
            entry = Entry(number, "str", b"", "" if deleted else "bytes", deleted, 2)
            memory.apply([entry])
            model.pop(number, None)
            if not deleted:
                model[number] = entry
            assert state.lookup("str", number) == model.get(number)
        assert state.count() == len(model)

    monkeypatch.setattr(order, "give_way", write)
    assert list(state.ordered("str")) == [entry for _, entry in sorted(model.items())]
    assert steps > 2 * 30_000 // 2000
