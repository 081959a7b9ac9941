"""Quorum rules for a partitioned cluster. Pure functions: members in, verdict out.

A quorum changes by one name at a time, and only when each of its living members knows the version before. So no two halves of a
cluster may both serve: a majority of one version and a majority of the next share a member.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec


class Quorum(msgspec.Struct, frozen=True, kw_only=True):
    """The members of which more than half must be together. A member that left in order is not in it, a killed member is."""

    version: int
    names: list[str]

    def has_majority(self, there: Iterable[str]) -> bool:
        """Whether more than half of the quorum is among `there`."""
        return 2 * len(set(self.names) & set(there)) > len(self.names)

    def following(self, *, came: str | None = None, went: str | None = None) -> Quorum:
        """The next version, with one name more or one name less."""
        names = (set(self.names) | ({came} if came else set())) - ({went} if went else set())
        return Quorum(version=self.version + 1, names=sorted(names))


def first(names: Collection[str]) -> Quorum:
    """The quorum of a cluster whose memory has just been filled."""
    return Quorum(version=1, names=sorted(set(names)))


def all_know(current: Quorum, known: dict[str, int], living: Collection[str]) -> bool:
    """Whether every living member of `current` uses it. `known` has the version that each member published last."""
    return all(known.get(name) == current.version for name in set(living) & set(current.names))


def may_leave(current: Quorum | None, name: str, healthy: Collection[str]) -> bool:
    """Whether the other members may serve after `name`, which has failed, leaves in order. `healthy` members have not failed."""
    if current is None:
        return False
    rest = current.following(went=name)
    return bool(rest.names) and rest.has_majority(healthy)
