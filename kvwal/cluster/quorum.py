"""Whose presence counts when a half of a cut cluster asks whether it may serve: decided without asking anybody.

It changes by one name at a time, and only when every living member of it knows the one before. Two that follow each other
then have no two halves that may both serve: more than half of the one and more than half of the other share a member.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec


class Quorum(msgspec.Struct, frozen=True, kw_only=True):
    """The members of which more than half must be together. Who left in order is not among them, who was killed is."""

    version: int
    names: list[str]

    def has_majority(self, there: Iterable[str]) -> bool:
        """Whether `there` are more than half of it."""
        return 2 * len(set(self.names) & set(there)) > len(self.names)

    def following(self, *, came: str | None = None, went: str | None = None) -> Quorum:
        """The next one, with one name more or one name less."""
        names = (set(self.names) | ({came} if came else set())) - ({went} if went else set())
        return Quorum(version=self.version + 1, names=sorted(names))


def first(names: Collection[str]) -> Quorum:
    """That of a cluster whose memory has just been filled."""
    return Quorum(version=1, names=sorted(set(names)))


def all_know(current: Quorum, known: dict[str, int], living: Collection[str]) -> bool:
    """Whether every living member that counts goes by `current`. `known` has the version that each told last."""
    return all(known.get(name) == current.version for name in set(living) & set(current.names))


def may_go(current: Quorum | None, name: str, healthy: Collection[str]) -> bool:
    """Whether those who stay may serve when `name`, which has failed, leaves in order; `healthy` are those that have not."""
    if current is None:
        return False
    rest = current.following(went=name)
    return bool(rest.names) and rest.has_majority(healthy)
