"""Quorum membership: the agreed quorum as one member sees it, and how that member enters and leaves it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kvwal.cluster.bootstrap import Status
from kvwal.cluster.quorum import Quorum, all_know, first, may_leave
from kvwal.node.adapters.live_members import Membership


class QuorumMembership:
    """The quorum membership of one member. Every call may wait for other members: call it on a worker, one at a time."""

    def __init__(self, membership: Membership, name: str, expect: Callable[[list[str]], None]) -> None:
        """`expect` gets the names of the quorum at every change."""
        self._membership = membership
        self._name = name
        self._expect = expect
        self._current: Quorum | None = None

    @property
    def version(self) -> int:
        """The version of the quorum that this member uses; 0 for none. The member publishes it."""
        return 0 if self._current is None else self._current.version

    @property
    def current(self) -> Quorum | None:
        """The quorum that this member uses. A member that left in order is not in it."""
        return self._current

    def begin(self, names: Collection[str]) -> None:
        """Memory was filled: agree on a quorum of these members, unless the members have agreed on one already."""
        self._membership.compare_and_set_quorum(None, first(names))
        self.refresh()

    def refresh(self) -> Quorum | None:
        """Use the agreed quorum. If the agreement was lost with members that went, publish it again."""
        agreed = self._membership.quorum()
        if agreed is None and self._current is not None:
            self._membership.compare_and_set_quorum(None, self._current)
            agreed = self._membership.quorum()
        if agreed is not None and agreed != self._current:
            self._current = agreed
            self._expect(agreed.names)
        return agreed

    def enter(self, statuses: list[Status], *, gone: Iterable[str] = ()) -> bool:
        """One step into the quorum; True when this member is in it, and all know. `gone`: members that --without names."""
        current, living = self.refresh(), self._membership.names()
        if current is None or not _known(current, statuses, living):
            return False
        absent = (set(gone) & set(current.names)) - living
        if absent:
            self._membership.compare_and_set_quorum(current, current.following(went=min(absent)))
            return False
        if self._name in current.names:
            return True
        if current.has_majority(status.name for status in statuses):
            self._membership.compare_and_set_quorum(current, current.following(came=self._name))
        return False

    def leave(self, statuses: list[Status]) -> bool:
        """One step out of the quorum; True when all that stay know, or when no other member is there to agree."""
        current, living = self.refresh(), self._membership.names()
        if current is None or living <= {self._name}:
            return True
        if not _known(current, statuses, living):
            return False
        if self._name not in current.names or not current.has_majority(status.name for status in statuses):
            return True
        self._membership.compare_and_set_quorum(current, current.following(went=self._name))
        return False

    def lacks(self, statuses: list[Status]) -> bool:
        """Whether a member of the quorum is out of sight."""
        return self._current is not None and not set(self._current.names) <= {status.name for status in statuses}

    def may_leave(self, statuses: list[Status], *, at_least: int = 1) -> bool:
        """Whether the others may serve without this member, which has failed, and at least `at_least` of them are healthy."""
        healthy = {status.name for status in statuses if not status.failing and status.votes} - {self._name}
        return len(healthy) >= at_least and may_leave(self._current, self._name, healthy)


def _known(current: Quorum, statuses: list[Status], living: Collection[str]) -> bool:
    return all_know(current, {status.name: status.votes for status in statuses}, living)
