"""The events of any transactions say what became of each item: folded, oldest first, they are the maps and queues as they are."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kvwal.entry import DataEntry, Entry
from kvwal.key_class import EVENTS
from kvwal.log.submission import GroupView
from kvwal.structures.memory import BusinessMemory
from kvwal.structures.provenance.event import Event, events_of
from kvwal.structures.provenance.record import (
    ATTRIBUTES,
    CLONE,
    CONTENT,
    CREATE,
    DROP,
    FORK,
    JOIN,
    ROUTE,
)
from kvwal.structures.provenance.state import ProvenanceOptions, options_entry
from kvwal.structures.queue.positions import key_of

NOW = 1_000
STRUCTURES = ["", "map/state", "queue", "queue/done"]
Item = tuple[str, bytes, int]


class Step(NamedTuple):
    """A change in a transaction: of a key, or a put into a queue, or a take of one of its items."""

    structure: str
    number: int
    deletes: bool
    value: int
    large: bool


steps = st.builds(
    Step,
    st.sampled_from(STRUCTURES),
    st.integers(0, 5),
    st.booleans(),
    st.integers(0, 2),
    st.sampled_from([False] * 9 + [True]),
)
groups = st.lists(st.lists(st.lists(steps, min_size=1, max_size=6), min_size=1, max_size=3), min_size=1, max_size=6)


class Machine:
    """A memory whose provenance is on, the transactions that it was given, and the model of what is there."""

    def __init__(self) -> None:
        self.memory = BusinessMemory(lambda: NOW, node="node-1")
        self.memory.recovered()
        self.memory.apply([options_entry(ProvenanceOptions(on=True))])
        self.there: dict[tuple[str, bytes], Entry] = {}
        self.events: list[Event] = []
        self._clock = 10

    def group(self, transactions: list[list[Step]]) -> None:
        """Form a group as the writer does, and apply it."""
        view = GroupView(self.memory.lookup, self.memory.state, NOW, self._stamps)
        logged: list[Entry] = []
        for transaction in transactions:
            entries = self._entries(transaction)
            if not entries:
                continue
            timestamp = self._stamps(1)
            for entry in entries:
                entry.timestamp = timestamp
            assert self.memory.derive is not None
            with_events = self.memory.derive(entries, view)
            view.add(with_events)
            logged += with_events
            self._check(entries, [entry for entry in with_events if entry.key_class == EVENTS])
        self.memory.apply(logged)

    def _stamps(self, count: int) -> int:
        first, self._clock = self._clock, self._clock + count
        return first

    def _entries(self, transaction: list[Step]) -> list[Entry]:
        """The transaction as entries, of each identity one."""
        entries: dict[tuple[str, bytes], Entry] = {}
        for step in transaction:
            value = b'{"v":%d}' % step.value + b" " * (5_000 + step.value if step.large else 0)
            if not step.structure.startswith("queue"):
                key, key_class = b"k%d" % step.number, f"{step.structure}:str".removeprefix(":")
            elif not step.deletes:
                key, key_class = key_of(0, self._stamps(1)), f"{step.structure}:int"
            else:
                items = [key for name, key in self.there if name == f"{step.structure}:int"]
                if not items:
                    continue
                key, key_class = items[step.number % len(items)], f"{step.structure}:int"
            entries[key_class, key] = (
                Entry(key, key_class, b"", "", True, 0)
                if step.deletes
                else Entry(key, key_class, value, "json", False, 0)
            )
        return list(entries.values())

    def _check(self, entries: list[Entry], of_events: list[Entry]) -> None:
        ended, made = Counter[Item](), Counter[Item]()
        for entry in entries:
            before = self.there.pop((entry.key_class, entry.key), None)
            if before is not None:
                ended[id_of(before)] += 1
            if not entry.deleted:
                made[id_of(entry)] += 1
                self.there[entry.key_class, entry.key] = entry
        events = [event for entry in of_events for event in events_of(entry)]
        assert Counter(id_of(item.entry) for event in events for item in event.parents) == ended
        assert Counter(id_of(item.entry) for event in events for item in event.children) == made
        assert bool(of_events) == bool(ended or made)
        for event in events:
            check_type(event)
        self.events += events


def id_of(entry: Entry | DataEntry) -> Item:
    return entry.key_class, entry.key, entry.timestamp


def same(one: DataEntry, other: DataEntry) -> bool:
    return (one.value, one.value_class) == (other.value, other.value_class)


def check_type(event: Event) -> None:
    """The type says how many items there were and are, and whether they have the same value."""
    before, after = event.record.before, event.record.after
    sizes = (len(before), len(after))
    if event.type in (CREATE, DROP):
        assert sizes == ((0, 1) if event.type == CREATE else (1, 0))
    elif event.type in (CONTENT, ATTRIBUTES, ROUTE):
        assert sizes == (1, 1)
        assert same(before[0], after[0]) == (event.type != CONTENT)
        assert (event.type == ROUTE) <= (before[0].key != after[0].key)
    elif event.type == CLONE:
        assert sizes[0] == 1
        assert sizes[1] > 1
        assert all(same(before[0], each) for each in after)
    else:
        assert event.type in (FORK, JOIN)
        assert sizes[0]
        assert sizes[1]
        assert (event.type == FORK) == (sizes[1] > sizes[0])
        assert sizes[0] != sizes[1]


@given(groups=groups)
def test_events_of_any_transactions_are_what_became_of_each_item(groups: list[list[list[Step]]]) -> None:
    machine = Machine()
    for group in groups:
        machine.group(group)
    there: dict[Item, DataEntry] = {}
    for event in machine.events:
        for item in event.parents:
            del there[id_of(item.entry)]
        there |= {id_of(item.entry): item.entry for item in event.children}
    assert {identity[:2]: identity[2] for identity in there} == {
        identity: entry.timestamp for identity, entry in machine.there.items()
    }
    for key_class, key, _ in there:
        found = machine.memory.lookup(key_class, key)
        assert found is not None
        kept = there[id_of(found)]
        assert kept.value == (found.value if len(found.value) <= 4096 else b"%d" % len(found.value))


@given(groups=groups)
def test_the_memory_keeps_no_event(groups: list[list[list[Step]]]) -> None:
    machine = Machine()
    for group in groups:
        machine.group(group)
    assert machine.memory.structures_of("provenance") == ["provenance"]
    assert not [entry for entry in machine.memory.map.all_ordered() if entry.key_class == EVENTS]
    assert machine.memory.lookup(EVENTS, b"") is None
