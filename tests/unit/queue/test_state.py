"""The state of a queue in memory: the order of the items is made at its first use, and nobody can tell when that was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvwal.entry import Entry, make_entry
from kvwal.structures.guards import guards_alone
from kvwal.structures.queue.positions import item_class, key_of
from kvwal.structures.queue.state import QueueState
from kvwal.structures.queue_items.reservation import Reservation

CLASS = item_class("queue")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "take", "give back", "expire", "drop"]), st.integers(-2, 1), st.integers(0, 9)
    ),
    max_size=30,
)


class Stepped:
    """A state, and what its takers hold."""

    def __init__(self) -> None:
        self.now = 0
        self.state = QueueState(guards_alone(lambda: self.now))
        self.held: list[Reservation] = []

    def step(self, what: str, priority: int, number: int) -> None:
        key = key_of(priority, (1 << 57) + number)
        if what == "put":
            expires = 5 if number % 3 == 0 else 0
            self.state.apply([make_entry(key, CLASS, b"x" * number, "bytes", False, 7, expires)])
        elif what == "delete":
            self.state.apply([Entry(key, CLASS, b"", "", True, 8)])
        elif what == "take":
            self.held.append(Reservation())
            self.state.hand_out(number, self.held[-1])
        elif what == "give back" and self.held:
            self.state.give_back(self.held.pop())
        elif what == "expire":
            self.now = 9
            self.state.drop_expired(number)
        elif what == "drop" and number == 0:
            self.state.drop_until(7)

    def seen(self) -> tuple[object, ...]:
        state = self.state
        return [entry.key for entry in state.items()], state.oldest, *self.counted()

    def counted(self) -> tuple[object, ...]:
        return self.state.count(), self.state.in_flight, self.state.size, self.state.holds_nothing()


@given(STEPS)
def test_the_order_is_the_same_whenever_it_is_made(steps: list[tuple[str, int, int]]) -> None:
    early, late = Stepped(), Stepped()
    for step in steps:
        early.step(*step)
        early.seen()
        late.step(*step)
        assert early.counted() == late.counted()
        assert [each.entries for each in early.held] == [each.entries for each in late.held]
    assert early.seen() == late.seen()
    keys = early.seen()[0]
    assert isinstance(keys, list)
    assert keys == sorted(set(keys))


def test_a_state_that_begins_again_has_no_old_order() -> None:
    state = QueueState(guards_alone(lambda: 0))
    old, new = (Entry(key_of(0, (1 << 57) + number), CLASS, b"", "none", False, 1) for number in (2, 1))
    state.apply([old])
    assert [entry.key for entry in state.items()] == [old.key]
    state.clear()
    assert list(state.items()) == []
    state.apply([new])
    assert [entry.key for entry in state.items()] == [new.key]
