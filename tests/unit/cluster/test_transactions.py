"""What an interrupted transaction comes to when memory is filled: its changes, where nothing newer has followed them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvwal.cluster.recovery_buffer import RecoveryBuffer
from kvwal.cluster.transactions import Unfinished
from kvwal.entry import Entry, ExpiringEntry, encode_entries
from kvwal.key_class import INTENT


def put(key: bytes, value: bytes, timestamp: int = 0) -> Entry:
    return Entry(key, "str", value, "str", False, timestamp)


def delete(key: bytes, timestamp: int = 0) -> Entry:
    return Entry(key, "str", b"", "", True, timestamp)


def intent(name: bytes, timestamp: int, *changes: Entry) -> Entry:
    return Entry(name, INTENT, encode_entries(list(changes)), "bytes", False, timestamp)


LOG = [
    put(b"a", b"old", 1),
    put(b"gone", b"old", 2),
    intent(b"one", 3, put(b"a", b"1"), put(b"b", b"1"), delete(b"gone"), delete(b"never"), put(b"c", b"1")),
    put(b"b", b"since", 4),
    delete(b"c", 5),
    intent(b"two", 6, put(b"a", b"2"), put(b"d", b"2")),
    put(b"kept", b"x", 7),
]
LIVE = {b"a": b"2", b"b": b"since", b"d": b"2", b"kept": b"x"}
LEFT = [(b"one", {b"gone", b"never"}), (b"two", {b"a", b"d"})]


def names(found: list[tuple[Entry, list[Entry]]]) -> list[tuple[bytes, set[bytes]]]:
    return [(intent.key, {change.key for change in changes}) for intent, changes in found]


@pytest.mark.parametrize("size", [1, 3, len(LOG)])
def test_a_log_is_read_as_if_each_change_stood_where_the_intent_does(size: int) -> None:
    memory = RecoveryBuffer(lambda: 0)
    for start in range(0, len(LOG), size):
        memory.apply(LOG[start : start + size])
    assert names(memory.take_unfinished()) == LEFT
    assert {e.key: e.value for batch in memory.hand_over(10, 1 << 20) for e in batch} == LIVE


def rows(*entries: Entry) -> pa.RecordBatch:
    columns = ["key", "key_class", "value", "deleted", "timestamp"]
    types = [pa.binary(), pa.string(), pa.binary(), pa.bool_(), pa.int64()]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([getattr(entry, name) for entry in entries], kind)
            for name, kind in zip(columns, types, strict=True)
        ],
        names=columns,
    )


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_merge_is_overlaid_by_what_intents_changed_since(size: int) -> None:
    latest = {(entry.key_class, entry.key): entry for entry in LOG}
    merged = [entry for entry in latest.values() if entry.key_class != INTENT]
    intents = Unfinished(entry for entry in latest.values() if entry.key_class == INTENT)
    found: dict[bytes, bytes] = {}
    for start in range(0, len(merged), size):
        for row in intents.without(rows(*merged[start : start + size])).to_pylist():
            if not row["deleted"]:
                found[row["key"]] = row["value"]
    found |= {entry.key: entry.value for entry in intents.puts(0)}
    assert found == LIVE
    assert names(intents.left()) == LEFT


def test_without_intents_a_merge_is_what_it_was() -> None:
    batch = rows(put(b"a", b"1", 1))
    intents = Unfinished([])
    assert intents.without(batch) is batch
    assert intents.puts(0) == intents.left() == []


def test_what_has_expired_is_logged_and_not_in_memory() -> None:
    intents = Unfinished([intent(b"one", 3, ExpiringEntry(b"a", "str", b"1", "str", False, 0, 5))])
    assert intents.puts(5) == []
    assert names(intents.left()) == [(b"one", {b"a"})]


OTHER_CLOCK = [
    put(b"a", b"old", 90),
    put(b"b", b"old", 5),
    intent(b"one", 20, put(b"a", b"1", 95), put(b"b", b"1", 9), put(b"c", b"1", 9), delete(b"d", 95)),
    put(b"c", b"since", 10),
    put(b"d", b"old", 95),
]
"""The log of `a` and `d` is of a clock ahead of the intent's, and that of `b` and `c` of one behind it."""


def test_a_change_counts_by_the_clock_of_its_key() -> None:
    intents = Unfinished(entry for entry in OTHER_CLOCK if entry.key_class == INTENT)
    kept = intents.without(rows(*(entry for entry in OTHER_CLOCK if entry.key_class != INTENT)))
    assert kept.column("value").to_pylist() == [b"since"]
    assert {entry.key: entry.value for entry in intents.puts(0)} == {b"a": b"1", b"b": b"1"}
    assert names(intents.left()) == [(b"one", {b"a", b"b", b"d"})]


@pytest.mark.parametrize(("between", "value"), [(12, b"1"), (8, b"2"), (5, b"2")])
def test_of_two_intents_the_last_counts_that_no_entry_follows(between: int, value: bytes) -> None:
    intents = Unfinished([intent(b"two", 30, put(b"a", b"2", 9)), intent(b"one", 20, put(b"a", b"1", 15))])
    assert intents.without(rows(put(b"a", b"between", between))).num_rows == 0
    assert [entry.value for entry in intents.puts(0)] == [value]
