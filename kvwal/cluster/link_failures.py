"""Bad links between members: who goes, so that those who stay all hear each other. Pure functions: reports in, verdict out.

A cut between two of three, or a member that hears another one and is not heard by it, leaves the choice to chance: each side
gives up the other, and both may end. So every member tells the others whom it hears, and all choose alike: the largest group
whose members all hear each other stays, and of groups of one size the one with the oldest members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import combinations
from typing import NamedTuple

from kvwal.cluster.quorum import Quorum

_GOOD_SECONDS = 3.5
"""Heartbeats come every second, and reports almost as often, over one other member at most."""
_BAD_SECONDS = 5.0
"""Of silence. With `_HOLD_SECONDS` well below the ten after which Hazelcast gives a member up without asking anybody."""
_TOLD_SECONDS = 3.0
"""A report that is older says nothing of now: whoever made it may be cut off."""
_HOLD_SECONDS = 2.0
"""Members see a change of the network one after the other: what they conclude on the way does not count."""

_MOST_DOUBTFUL = 12
"""Members with a bad link. With more of them Hazelcast alone judges: each doubles the groups that would have to be tried."""


class Report(NamedTuple):
    """How long a member has not heard another one, and how long ago it said so."""

    by: str
    of: str
    silent_seconds: float
    age_seconds: float


class _Link(Enum):
    GOOD = "good"
    UNSURE = "unsure"
    BAD = "bad"


def victims(own: str, members: Sequence[str], quorum: Quorum, reports: Sequence[Report]) -> list[str]:
    """Which of `members` (the oldest first) are to go, as `own` sees it: none as long as the links are not known, or where those
    who stay could not serve. Whom none of those hears may only be slow: Hazelcast gives it up in its time. But whoever hears
    none of them and still says so is not.
    """
    links = _links(members, reports)
    speaking = {report.by for report in reports if report.age_seconds <= _TOLD_SECONDS}
    if all(links[pair] is _Link.BAD for pair in links if own in pair):
        # The oldest would give up one after the other, and send each a list without those before: they would part, too.
        return [own] if own == members[0] and quorum.has_majority(members[1:]) else []
    if _Link.BAD not in links.values() or _Link.UNSURE in links.values():
        return []
    for group in _whole_groups(members, links):
        if quorum.has_majority(group):
            rest = [name for name in members if name not in group]
            return [name for name in rest if _is_to_go(name, group, links, speaking)]
    return []


def _is_to_go(name: str, group: Sequence[str], links: Mapping[frozenset[str], _Link], speaking: set[str]) -> bool:
    """Whether one that does not belong to the group that stays is heard by it, or says that it hears nobody at all."""
    if any(links[frozenset((name, other))] is _Link.GOOD for other in group):
        return True
    return name in speaking and all(link is _Link.BAD for pair, link in links.items() if name in pair)


def _whole_groups(members: Sequence[str], links: Mapping[frozenset[str], _Link]) -> Iterator[list[str]]:
    """Groups whose links are all good: the largest first, and of groups of one size the one with the oldest members. None where
    too many members have a bad link to try them all.
    """
    doubtful = [name for name in members if any(name in pair and link is _Link.BAD for pair, link in links.items())]
    if len(doubtful) > _MOST_DOUBTFUL:
        return
    for count in range(len(doubtful), -1, -1):
        for some in combinations(doubtful, count):
            if all(links[frozenset(pair)] is _Link.GOOD for pair in combinations(some, 2)):
                yield [name for name in members if name in some or name not in doubtful]


def _links(members: Sequence[str], reports: Iterable[Report]) -> dict[frozenset[str], _Link]:
    last: dict[tuple[str, str], Report] = {}
    for report in reports:
        before = last.get((report.by, report.of), report)
        last[report.by, report.of] = min(before, report, key=lambda told: told.age_seconds)
    return {
        frozenset(pair): _quality([last[way] for way in (pair, pair[::-1]) if way in last])
        for pair in combinations(members, 2)
    }


def _quality(reports: Sequence[Report]) -> _Link:
    """Of a link in both directions: a connection needs both."""
    recent = [report for report in reports if report.age_seconds <= _TOLD_SECONDS]
    if any(report.silent_seconds > _BAD_SECONDS for report in recent):
        return _Link.BAD
    if recent and all(report.silent_seconds + report.age_seconds <= _GOOD_SECONDS for report in recent):
        return _Link.GOOD
    return _Link.UNSURE


class Verdict:
    """What was concluded at every look for a while."""

    def __init__(self) -> None:
        self._victims: list[str] = []
        self._since = 0.0

    def look(self, found: list[str], now: float) -> list[str]:
        """Whom to act on, of those `found` at this look: all or none."""
        if found != self._victims:
            self._victims, self._since = found, now
        return found if now - self._since >= _HOLD_SECONDS else []
