"""Quorum rules of a cut cluster: with members that join, leave and hear of it late, never may two halves serve."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import pytest

from kvwal.cluster.bootstrap import Status
from kvwal.cluster.quorum import Quorum, first
from kvwal.node.adapters.quorum_membership import QuorumMembership

NAMES = [f"node-{number}" for number in range(1, 7)]
STEPS = 250
SEEDS = 100


class Agreed:
    """Stands for what members tell each other: one quorum, and the last status of each, unless that was lost."""

    def __init__(self) -> None:
        self.now: Quorum | None = None
        self.statuses: dict[str, Status] = {}
        self.older: dict[str, list[Status]] = {}
        self.there: set[str] = set()

    def names(self) -> set[str]:
        return self.there

    def lose(self, name: str, chance: random.Random) -> None:
        """Who held its status was killed, and a copy has an older one, or none."""
        self.statuses.pop(name, None)
        if found := self.older[name][: chance.randint(0, len(self.older[name]))]:
            self.statuses[name] = found[-1]

    def quorum(self) -> Quorum | None:
        return self.now

    def compare_and_set_quorum(self, old: Quorum | None, new: Quorum) -> bool:
        if self.now != old:
            return False
        self.now = new
        return True


class Member:
    """A member as it goes by what it knows."""

    def __init__(self, agreed: Agreed, name: str) -> None:
        self.agreed = agreed
        self.name = name
        self.expected: list[str] = []
        self.serves = False
        self.quorum_membership = QuorumMembership(agreed, name, self.expect)  # type: ignore[arg-type]
        agreed.there.add(name)
        agreed.older[name] = []
        self.tell()

    def expect(self, names: list[str]) -> None:
        self.expected = names

    def tell(self, *, failing: bool = False) -> None:
        status = Status(
            member=self.name, name=self.name, address=self.name, votes=self.quorum_membership.version, failing=failing
        )
        self.agreed.statuses[self.name] = status
        self.agreed.older[self.name].append(status)

    def statuses(self) -> list[Status]:
        return list(self.agreed.statuses.values())

    def enter(self, gone: tuple[str, ...] = ()) -> bool:
        self.serves = self.quorum_membership.enter(self.statuses(), gone=gone) or self.serves
        return self.serves

    def leave(self) -> bool:
        return self.quorum_membership.leave(self.statuses())


def settle(members: dict[str, Member]) -> None:
    """Everybody looks, tells, and enters."""
    for _ in range(4 * len(members)):
        for member in members.values():
            member.quorum_membership.refresh()
            member.tell()
            member.enter()


def gone(agreed: Agreed, members: dict[str, Member], name: str) -> None:
    agreed.statuses.pop(name, None)
    agreed.there.remove(name)
    del members[name]


@pytest.fixture
def agreed() -> Agreed:
    return Agreed()


def started(agreed: Agreed, count: int) -> dict[str, Member]:
    """A cluster that serves."""
    members = {name: Member(agreed, name) for name in NAMES[:count]}
    members[NAMES[0]].quorum_membership.begin(list(members))
    settle(members)
    assert all(member.serves for member in members.values())
    return members


def leave(agreed: Agreed, members: dict[str, Member], name: str) -> None:
    """In order: it goes when all know."""
    while not members[name].leave():
        for member in members.values():
            member.quorum_membership.refresh()
            member.tell()
    gone(agreed, members, name)


def halves(names: list[str]) -> Iterator[tuple[set[str], set[str]]]:
    """Each way to cut the living in two."""
    for size in range(1, len(names)):
        for one in combinations(names, size):
            yield set(one), set(names) - set(one)


def may_serve(members: dict[str, Member], half: set[str]) -> bool:
    """Whether any member of this half would serve if it was cut off from the rest now."""
    known = [Quorum(version=0, names=members[name].expected) for name in half if members[name].serves]
    return any(quorum.names and quorum.has_majority(half) for quorum in known)


def step(agreed: Agreed, members: dict[str, Member], leaving: set[str], chance: random.Random) -> None:
    """One thing that one member does, or that happens to it."""
    name = chance.choice(NAMES)
    member = members.get(name)
    if member is None:
        if members:
            members[name] = Member(agreed, name)
    elif name in leaving:
        if member.leave():
            gone(agreed, members, name)
            leaving.discard(name)
    else:
        what = chance.choices(["look", "tell", "enter", "leave", "kill", "lose"], [6, 6, 6, 3, 0.5, 6])[0]
        if what == "look":
            member.quorum_membership.refresh()
        elif what == "tell":
            member.tell()
        elif what == "enter":
            member.enter()
        elif what == "leave" and member.serves and len(members) > 1:
            leaving.add(name)
        elif what == "lose":
            agreed.lose(name, chance)
        elif what == "kill" and len(members) > 1:
            gone(agreed, members, name)
            leaving.discard(name)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.variants(30)
def test_no_two_halves_may_serve(seed: int) -> None:
    agreed, chance = Agreed(), random.Random(seed)
    members, leaving = started(agreed, chance.randint(1, 5)), set[str]()
    for number in range(STEPS):
        step(agreed, members, leaving, chance)
        for name in leaving & members.keys():
            members[name].quorum_membership.refresh()
            members[name].tell()
        for one, other in halves(sorted(members)):
            assert not (may_serve(members, one) and may_serve(members, other)), (seed, number, one, other)


def test_a_member_that_left_in_order_is_not_expected(agreed: Agreed) -> None:
    members = started(agreed, 3)
    leave(agreed, members, "node-1")
    leave(agreed, members, "node-2")
    assert may_serve(members, {"node-3"})


def test_a_killed_member_is_expected(agreed: Agreed) -> None:
    members = started(agreed, 3)
    gone(agreed, members, "node-1")
    settle(members)
    assert may_serve(members, {"node-2", "node-3"})
    gone(agreed, members, "node-2")
    settle(members)
    assert not may_serve(members, {"node-3"})


def test_a_killed_member_is_not_expected_once_the_operator_leaves_it_out(agreed: Agreed) -> None:
    members = started(agreed, 3)
    gone(agreed, members, "node-1")
    gone(agreed, members, "node-2")
    while not members["node-3"].quorum_membership.enter(
        members["node-3"].statuses(), gone=("node-1", "node-2", "node-9")
    ):
        settle(members)
    assert may_serve(members, {"node-3"})


def test_a_living_member_cannot_be_left_out(agreed: Agreed) -> None:
    members = started(agreed, 3)
    assert members["node-1"].enter(gone=("node-2",))
    assert agreed.now == first(NAMES[:3])


def test_a_present_member_without_a_status_is_waited_for(agreed: Agreed) -> None:
    members = started(agreed, 4)
    before = agreed.now
    del agreed.statuses["node-2"]
    assert not members["node-1"].leave()
    assert not Member(agreed, "node-5").enter()
    assert members["node-3"].enter(gone=("node-2",))
    assert agreed.now == before
    members["node-2"].tell()
    assert not members["node-1"].leave()
    assert agreed.now != before


def test_a_joining_member_counts_once_all_members_know(agreed: Agreed) -> None:
    members = started(agreed, 2)
    members["node-3"] = Member(agreed, "node-3")
    assert not members["node-3"].enter()
    members["node-3"].tell()
    assert not members["node-3"].enter(), "the others have not looked yet"
    settle(members)
    assert members["node-3"].serves
    assert members["node-1"].expected == NAMES[:3]


def test_a_half_that_may_not_serve_admits_no_member(agreed: Agreed) -> None:
    members = started(agreed, 3)
    gone(agreed, members, "node-1")
    gone(agreed, members, "node-2")
    members["node-4"] = Member(agreed, "node-4")
    settle(members)
    assert not members["node-4"].serves


def test_what_was_lost_with_lost_members_is_told_again(agreed: Agreed) -> None:
    members = started(agreed, 3)
    agreed.now = None
    settle(members)
    assert agreed.now == first(NAMES[:3])


def test_a_failed_member_leaves_only_if_the_others_may_serve(agreed: Agreed) -> None:
    members = started(agreed, 3)
    one = members["node-1"]
    assert one.quorum_membership.may_leave(one.statuses(), at_least=2)
    members["node-2"].tell(failing=True)
    assert not one.quorum_membership.may_leave(one.statuses()), "of the two that stay one has failed too"
    gone(agreed, members, "node-2")
    assert not one.quorum_membership.may_leave(one.statuses()), "of the two that are expected one is not there"
    leave(agreed, members, "node-3")
    assert not one.quorum_membership.may_leave(one.statuses()), "nobody is there to serve"
