"""A queue whose items are mostly in files does what a queue in memory does, over puts, takes, deletes and restarts."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvwal.entry import Entry, make_entry
from kvwal.errors import CorruptLog
from kvwal.structures.guards import Guards, guards_alone
from kvwal.structures.queue.deliveries import Delivery, delivery_entry
from kvwal.structures.queue.positions import delivery_class, item_class, key_of
from kvwal.structures.queue.state import QueueState
from kvwal.structures.queue_items.reservation import Reservation
from kvwal.structures.queue_items.swapped import Identity, Swap
from tests.support.chance import examples

CLASS = item_class("queue")
MEMORY = 6
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "put", "take", "take", "back", "commit", "put back", "delete", "delay", "expire", "snapshot", "open"]
        ),
        st.sampled_from([0, 0, 0, -1, 3]),
        st.integers(1, 9),
    ),
    max_size=60,
)  # fmt: skip


class ListedLog:
    """The entries of a log as its files have them: a snapshot of the first ones, and segments."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.covered = 0

    def latest(self, key_class: str) -> Iterator[list[Entry]]:
        found = _latest(self.entries, (key_class, b""), (key_class, b"\xff"))
        yield from (found[at : at + 3] for at in range(0, len(found), 3))

    def stretch(self, low: Identity, high: Identity, timestamp: int) -> Iterator[Entry]:
        segments = [entry for entry in self.entries[self.covered :] if entry.timestamp >= timestamp]
        of_range = [entry for entry in segments if low <= (entry.key_class, entry.key) < high]
        for entry in [*_latest(self.entries[: self.covered], low, high), *of_range]:
            if not entry.deleted:
                yield entry

    def cover(self, *, keeps_deletes: bool) -> None:
        """Write a snapshot of all entries. A base leaves deletes out that shadow nothing."""
        if not keeps_deletes:
            self.entries = [entry for entry in _latest(self.entries, ("", b""), ("~", b"")) if not entry.deleted]
        self.covered = len(self.entries)

    def missing(self, key: bytes) -> CorruptLog:
        return CorruptLog(f"{key.hex()} is missing", path="log", offset=0)


def _latest(entries: list[Entry], low: Identity, high: Identity) -> list[Entry]:
    found = {(entry.key_class, entry.key): entry for entry in entries}
    return [found[identity] for identity in sorted(found) if low <= identity < high]


class Stepped:
    """A queue in memory and one with files, to which the same is done."""

    def __init__(self) -> None:
        self.now, self.time = 0, 1 << 57
        self.log = ListedLog()
        self.recovers = False
        self.plain, self.swapping = self.opened()
        self.held: list[list[Reservation]] = []

    def opened(self) -> tuple[QueueState, QueueState]:
        guards = guards_alone(lambda: self.now)
        watched = Guards(guards.now, guards.lock, guards.building, lambda: self.recovers)
        return QueueState(guards_alone(lambda: self.now)), QueueState(watched, Swap(MEMORY, self.log))

    def apply(self, entries: list[Entry]) -> None:
        self.time += 1
        for entry in entries:
            entry.timestamp = self.time
        self.time += 1
        self.log.entries += entries
        for state in (self.plain, self.swapping):
            state.apply(list(entries))

    def step(self, what: str, priority: int, number: int) -> None:
        both = (self.plain, self.swapping)
        if what in ("put", "delay"):
            expires = 5 if what == "put" and number == 9 else 0
            keys = [key_of(priority, self.time + n) for n in range(number)]
            self.time += number
            items = [make_entry(key, CLASS, b"x" * number, "bytes", False, 0, expires) for key in keys]
            late = [delivery_entry(delivery_class("queue"), item, Delivery(due=number)) for item in items]
            self.apply([*items, *late[:1]] if what == "delay" else items)
        elif what == "take":
            self.held.append([Reservation(), Reservation()])
            for state, reserved in zip(both, self.held[-1], strict=True):
                state.hand_out(number, reserved)
        elif what == "back" and self.held:
            for state, reserved in zip(both, self.held.pop(), strict=True):
                state.give_back(reserved)
        elif what in ("commit", "put back") and self.held:
            taken = self.held.pop()[0].entries
            self.apply([Entry(entry.key, CLASS, b"", "", True, 0) for entry in taken])
            if what == "put back":
                self.apply(
                    [make_entry(e.key, CLASS, e.value, e.value_class, False, 0, e.expires) for e in taken]
                )  # fmt: skip
        elif what == "delete":
            keys = [entry.key for entry in self.plain.items()][number::7]
            self.apply([Entry(key, CLASS, b"", "", True, 0) for key in keys])
        elif what == "expire":
            self.now += number
        elif what == "snapshot":
            self.log.cover(keeps_deletes=number % 2 == 0)
        elif what == "open":
            self.open()
        self.sweep()  # an item that has expired counts until then, unless it is read again

    def sweep(self) -> None:
        for state in (self.plain, self.swapping):
            state.drop_expired(1000)

    def open(self) -> None:
        """Recover from the files: what is in flight is at its place again."""
        self.plain, self.swapping = self.opened()
        self.held = []
        self.recovers = True
        first = ("", b"")
        read = [
            *_latest(self.log.entries[: self.log.covered], first, ("~", b"")),
            *self.log.entries[self.log.covered :],
        ]
        for entry in read:
            for state in (self.plain, self.swapping):
                state.apply([entry])
        self.recovers = False
        self.swapping.recovered()

    def seen(self, state: QueueState) -> list[object]:
        items = [(entry.key, entry.value) for entry in state.items()]
        return [items, state.count(), state.size, state.in_flight, state.delayed, state.oldest, state.room]


BACK_AROUND_ONE_THAT_WAS_TAKEN = [
    ("put", 0, 9), ("put", 0, 3), ("take", 0, 9), ("take", 0, 1), ("commit", 0, 1), ("back", 0, 1), ("put", 0, 9), ("take", 0, 9),
    ("take", 0, 9),
]  # fmt: skip
DUE_BEFORE_IT_IS_BETWEEN = [
    ("put", 0, 4),
    ("delay", 0, 1),
    ("expire", 0, 2),
    ("put", 0, 8),
    ("put", 0, 8),
    ("take", 0, 9),
]


@example(BACK_AROUND_ONE_THAT_WAS_TAKEN)
@example(DUE_BEFORE_IT_IS_BETWEEN)
@settings(max_examples=examples(300))
@given(STEPS)
def test_nobody_can_tell_where_the_items_are(steps: list[tuple[str, int, int]]) -> None:
    both = Stepped()
    for step in steps:
        both.step(*step)
        assert [[e.key for e in one.entries] for one, _ in both.held] == [
            [e.key for e in two.entries] for _, two in both.held
        ]
        assert both.seen(both.swapping) == both.seen(both.plain)


def test_most_items_of_a_long_queue_are_not_in_memory() -> None:
    both = Stepped()
    for _ in range(100):
        both.step("put", 0, 8)
    assert both.swapping.count() == 800
    assert len(both.swapping._ready.held) <= 2 * MEMORY
