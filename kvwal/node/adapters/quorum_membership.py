"""The electorate as one member sees it, and how that member gets into it and out of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kvwal.cluster.bootstrap import Status
from kvwal.cluster.quorum import Quorum, all_know, first, may_go
from kvwal.node.adapters.membership import Membership


class QuorumMembership:
    """Every call may wait for the others: call it on a worker, one at a time."""

    def __init__(self, membership: Membership, name: str, expect: Callable[[list[str]], None]) -> None:
        """`expect` is told whose presence counts, at every change."""
        self._membership = membership
        self._name = name
        self._expect = expect
        self._current: Quorum | None = None

    @property
    def version(self) -> int:
        """Which one this member goes by; 0 for none. To be told to the others."""
        return 0 if self._current is None else self._current.version

    @property
    def current(self) -> Quorum | None:
        """The one that this member goes by: who left in order is not in it."""
        return self._current

    def begin(self, names: Collection[str]) -> None:
        """Memory was filled: these count from now on, unless somebody else has said so already."""
        self._membership.exchange(None, first(names))
        self.look()

    def look(self) -> Quorum | None:
        """Go by what the members agreed on. It is told again if it went with members that went."""
        found = self._membership.quorum()
        if found is None and self._current is not None:
            self._membership.exchange(None, self._current)
            found = self._membership.quorum()
        if found is not None and found != self._current:
            self._current = found
            self._expect(found.names)
        return found

    def enter(self, statuses: list[Status], *, gone: Iterable[str] = ()) -> bool:
        """One step towards counting; True when this member does, and all know. `gone` will not come, as their operator said."""
        current, living = self.look(), self._membership.names()
        if current is None or not _known(current, statuses, living):
            return False
        absent = (set(gone) & set(current.names)) - living
        if absent:
            self._membership.exchange(current, current.following(went=min(absent)))
            return False
        if self._name in current.names:
            return True
        if current.has_majority(status.name for status in statuses):
            self._membership.exchange(current, current.following(came=self._name))
        return False

    def leave(self, statuses: list[Status]) -> bool:
        """One step towards counting no more; True when all that stay know, or when nobody is there to agree."""
        current, living = self.look(), self._membership.names()
        if current is None or living <= {self._name}:
            return True
        if not _known(current, statuses, living):
            return False
        if self._name not in current.names or not current.has_majority(status.name for status in statuses):
            return True
        self._membership.exchange(current, current.following(went=self._name))
        return False

    def lacks(self, statuses: list[Status]) -> bool:
        """Whether any that counts is out of sight."""
        return self._current is not None and not set(self._current.names) <= {status.name for status in statuses}

    def may_go(self, statuses: list[Status], *, at_least: int = 1) -> bool:
        """Whether the others may serve without this member, which has failed, and `at_least` so many of them have not."""
        healthy = {status.name for status in statuses if not status.failing and status.votes} - {self._name}
        return len(healthy) >= at_least and may_go(self._current, self._name, healthy)


def _known(current: Quorum, statuses: list[Status], living: Collection[str]) -> bool:
    return all_know(current, {status.name: status.votes for status in statuses}, living)
