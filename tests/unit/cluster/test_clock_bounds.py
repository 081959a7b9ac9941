"""Clock bounds: no member stamps above its published bound, and a new owner stamps after the old one, though clocks differ."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.cluster.clock_bounds import (
    AHEAD_MS,
    BoundedClock,
    ClockBounds,
    PublishedBound,
    SettledWall,
    above_former_owners,
    is_off,
    may_join,
)
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ClusterUnreachable
from kvwal.node.adapters.bounds_exchange import ClockBoundsExchange
from kvwal.ports.clock import SystemClock

WALL = 1_800_000_000_000
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "tell", "take over", "settle"]),
        st.integers(0, 2),
        st.integers(-2000, 3000),
    ),
    max_size=80,
)


class Member:
    """A member whose wall clock is `ahead` of the true time, with two logs."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.bounds = ClockBounds()
        self.logs = [BoundedClock(self.bounds), BoundedClock(self.bounds)]
        self.told = 0
        self.low_watermark = 0

    def tell(self, wall: int, above: int = 0) -> None:
        self.told = self.bounds.next_limit(wall + self.ahead, above)
        self.bounds.allow(self.told)


@given(st.lists(st.integers(-8000, 8000), min_size=3, max_size=3), STEPS)
def test_what_is_written_last_has_the_greatest_timestamp(aheads: list[int], steps: list[tuple[str, int, int]]) -> None:
    """One key, which members take over from each other while their clocks step and stand still."""
    members = [Member(ahead) for ahead in aheads]
    for member in members:
        member.tell(WALL)
    owner, last, wall = 0, 0, WALL
    for what, which, step in steps:
        wall = max(WALL, wall + step)
        if what == "tell":
            members[which].tell(wall)
        elif what == "take over":
            owner = which
            others = [(f"{place}", member) for place, member in enumerate(members) if place != owner]
            bounds = [PublishedBound(member=name, limit=member.told, wall_ms=wall) for name, member in others]
            answered = {name: member.bounds.latest for name, member in others[: step % 3]}
            above = above_former_owners(bounds, answered)
            members[owner].tell(wall, above)
            members[owner].bounds.rise(above)
        elif what == "settle":
            member = members[which]
            member.low_watermark = member.bounds.settle(wall + member.ahead, last)
            assert member.low_watermark < member.told
        else:
            mine = members[owner]
            try:
                stamp = mine.logs[step % 2].stamp(wall + mine.ahead)
            except ClusterUnreachable:
                continue
            assert mine.low_watermark < stamp < mine.told
            if step % 2 == 0:  # the log of the key
                assert stamp > last
                last = stamp


def test_a_member_whose_clock_is_behind_stamps_after_the_one_it_takes_a_key_over_from() -> None:
    old, new = Member(5_000), Member(-5_000)
    for member in (old, new):
        member.tell(WALL)
    last = old.logs[0].stamp(WALL + old.ahead)
    new.tell(WALL, old.told)
    new.bounds.rise(old.told)
    assert new.logs[0].stamp(WALL + new.ahead) > last


def test_a_new_owner_stamps_above_the_latest_timestamp_of_the_living_and_the_limit_of_a_member_that_went() -> None:
    living = PublishedBound(member="living", limit=900, wall_ms=0)
    gone = PublishedBound(member="gone", limit=300, wall_ms=0)
    assert above_former_owners([living], {"living": 100}) == 101, "not above its limit: the wall clock is behind that"
    assert above_former_owners([living, gone], {"living": 100}) == 300
    assert above_former_owners([living, gone], {"living": 500}) == 501
    assert above_former_owners([living, gone], {}) == 900
    assert above_former_owners([], {}) == 0


def test_a_clock_that_could_not_be_told_writes_nothing_and_goes_on_when_it_could() -> None:
    member = Member(0)
    member.tell(WALL)
    log = member.logs[0]
    assert log.stamp(WALL + AHEAD_MS // 2) == (WALL + AHEAD_MS // 2) << TIMESTAMP_SHIFT
    late = WALL + 60_000
    first = log.stamp(late)
    assert first < member.told, "it writes on below its limit, behind its wall clock"
    log.last = member.told - 1
    with pytest.raises(ClusterUnreachable, match="could not be told"):
        log.stamp(late)
    member.tell(late)
    assert log.stamp(late) == late << TIMESTAMP_SHIFT


def test_before_anybody_was_told_there_is_no_limit() -> None:
    log = BoundedClock(ClockBounds())
    assert log.stamp(WALL) == WALL << TIMESTAMP_SHIFT
    assert log.stamp(WALL) == (WALL << TIMESTAMP_SHIFT) + 1


def test_a_log_from_the_future_leaves_room_for_what_comes_after_it() -> None:
    member = Member(0)
    member.logs[0].advance(WALL + 5000 << TIMESTAMP_SHIFT)
    member.tell(WALL)
    assert member.logs[0].stamp(WALL) == (WALL + 5000 << TIMESTAMP_SHIFT) + 1


class _Alone:
    """The membership and the fence of a member that knows no other one."""

    own = SimpleNamespace(member="uuid", name="node-1")

    def refresh_bounds(self) -> None:
        pass

    def living(self) -> list[object]:
        return []

    def published_bounds(self) -> list[object]:
        return []

    def publish_bound(self, which: str, bound: PublishedBound) -> None:
        pass

    def owned(self) -> str:
        return "0"

    def rise(self, timestamp: int) -> None:
        self.low_watermark = timestamp

    def close(self) -> None:
        pass


def test_a_clock_goes_on_above_what_memory_was_filled_with() -> None:
    """The newest entry is of a member whose clock was ahead, and that did not come back."""
    alone: Any = _Alone()
    bounds = ClockBounds()
    newest = SystemClock().wall_ms() + 60_000 << TIMESTAMP_SHIFT

    async def fill() -> None:
        exchange = ClockBoundsExchange(alone, bounds, alone, SystemClock(), lambda wall_ms: 0)
        await exchange.rise(newest)
        await exchange.end()

    asyncio.run(fill())
    assert bounds.stamp(0, SystemClock().wall_ms()) > newest
    assert alone.low_watermark - 1 == newest


def test_a_step_ahead_counts_when_it_has_lasted() -> None:
    wall = SettledWall()
    assert wall.read(WALL, 100.0) == WALL
    assert wall.read(WALL + 5_000, 105.0) == WALL + 5_000
    assert wall.read(WALL + 66_000, 106.0) == WALL + 6_000, "the clock has stepped by a minute"
    assert wall.read(WALL + 75_000, 115.0) == WALL + 15_000
    assert wall.read(WALL + 76_000, 116.0) == WALL + 76_000
    assert wall.read(WALL + 17_000, 117.0) == WALL + 17_000, "a step back counts at once"
    assert wall.read(WALL + 77_000, 117.0) == WALL + 17_000
    assert wall.read(WALL + 18_000, 118.0) == WALL + 18_000, "the step was undone"
    assert wall.read(WALL + 88_000, 128.0) == WALL + 28_000, "the next step has just begun"
    assert wall.read(WALL + 100_000, 140.0, in_doubt=True) == WALL + 40_000, "the others say that it is wrong"


SKEWS = st.lists(st.floats(-100, 100), min_size=1, max_size=7)


@given(SKEWS, st.data())
def test_one_wrong_clock_costs_its_own_member_at_most(aheads: list[float], data: st.DataObject) -> None:
    """Of members most of whose clocks are within 5 s of the true time, only those whose clocks are wrong leave or stay out."""
    right = [ahead / 20 for ahead in aheads]
    wrong = data.draw(st.lists(st.floats(20, 100), max_size=len(right) - 1))
    members = data.draw(st.permutations([*right, *wrong]))
    for place, own in enumerate(members):
        skews = [ahead - own for other, ahead in enumerate(members) if other != place]
        if own in right:
            assert not is_off(skews, 10)
            assert may_join(skews, 10)
        else:
            assert not may_join(skews, 10)


def test_a_clock_is_off_when_most_others_agree_on_another_time() -> None:
    assert is_off([-60.0, -59.0], 10)
    assert not is_off([60.0], 10), "of two, either may be wrong"
    assert not is_off([60.0, 0.5], 10)
    assert not is_off([60.0, -60.0], 10), "no two of the three agree"
    assert is_off([60.0, 61.0, 60.0, -30.0], 10), "three of five agree; the fifth is off in another way"
    assert not is_off([60.0, 61.0, -30.0, 0.0], 10), "two of five are no majority"
    assert not is_off([], 10)
    assert may_join([], 10)
    assert not may_join([60.0], 10)
