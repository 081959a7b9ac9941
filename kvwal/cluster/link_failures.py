"""Link failures: which members go when network links are bad. Pure functions: reports in, verdict out.

Without a rule, chance decides after a cut between two of three members, or when only one direction of a link works: each side
gives up the other, and both may end. So every member publishes which members it hears, and all members choose alike. The largest
group whose members all hear each other stays; of groups of one size, the group with the oldest members.
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
"""A link is bad after this silence. Together with `_HOLD_SECONDS` well below the 10 s after which Hazelcast drops a member."""
_TOLD_SECONDS = 3.0
"""An older report is out of date: its member may be cut off."""
_HOLD_SECONDS = 2.0
"""A verdict counts after it was the same for so long: members see a change of the network one after the other."""

_MOST_DOUBTFUL = 12
"""Members with a bad link. With more of them Hazelcast alone judges: each doubles the groups that would have to be tried."""


class LinkReport(NamedTuple):
    """One report: how long the member `by` has not heard the member `of`, and how old the report is."""

    by: str
    of: str
    silent_seconds: float
    age_seconds: float


class _Link(Enum):
    GOOD = "good"
    UNSURE = "unsure"
    BAD = "bad"


def victims(own: str, members: Sequence[str], quorum: Quorum, reports: Sequence[LinkReport]) -> list[str]:
    """The `members` (the oldest first) that have to go, as `own` sees it.

    None if the links are not known, or if the members that stay could not serve. A member that no other member hears may only be
    slow, and Hazelcast gives it up in its time; but a member that reports that it hears no other has to go.
    """
    links = _links(members, reports)
    speaking = {report.by for report in reports if report.age_seconds <= _TOLD_SECONDS}
    if all(links[pair] is _Link.BAD for pair in links if own in pair):
        # An oldest member that is cut off removes the others one by one, and sends each a list without those before: a split.
        return [own] if own == members[0] and quorum.has_majority(members[1:]) else []
    if _Link.BAD not in links.values() or _Link.UNSURE in links.values():
        return []
    for group in _whole_groups(members, links):
        if quorum.has_majority(group):
            rest = [name for name in members if name not in group]
            return [name for name in rest if _is_to_go(name, group, links, speaking)]
    return []


def _is_to_go(name: str, group: Sequence[str], links: Mapping[frozenset[str], _Link], speaking: set[str]) -> bool:
    """Whether a member outside the group that stays has to go: the group hears it, or it reports that it hears no member."""
    if any(links[frozenset((name, other))] is _Link.GOOD for other in group):
        return True
    return name in speaking and all(link is _Link.BAD for pair, link in links.items() if name in pair)


def _whole_groups(members: Sequence[str], links: Mapping[frozenset[str], _Link]) -> Iterator[list[str]]:
    """Groups whose links are all good: the largest first, and of groups of one size the group with the oldest members.

    None if too many members have a bad link to try all groups.
    """
    doubtful = [name for name in members if any(name in pair and link is _Link.BAD for pair, link in links.items())]
    if len(doubtful) > _MOST_DOUBTFUL:
        return
    for count in range(len(doubtful), -1, -1):
        for some in combinations(doubtful, count):
            if all(links[frozenset(pair)] is _Link.GOOD for pair in combinations(some, 2)):
                yield [name for name in members if name in some or name not in doubtful]


def _links(members: Sequence[str], reports: Iterable[LinkReport]) -> dict[frozenset[str], _Link]:
    last: dict[tuple[str, str], LinkReport] = {}
    for report in reports:
        before = last.get((report.by, report.of), report)
        last[report.by, report.of] = min(before, report, key=lambda one: one.age_seconds)
    return {
        frozenset(pair): _quality([last[way] for way in (pair, pair[::-1]) if way in last])
        for pair in combinations(members, 2)
    }


def _quality(reports: Sequence[LinkReport]) -> _Link:
    """The quality of a link from the reports of both directions: a connection needs both."""
    recent = [report for report in reports if report.age_seconds <= _TOLD_SECONDS]
    if any(report.silent_seconds > _BAD_SECONDS for report in recent):
        return _Link.BAD
    if recent and all(report.silent_seconds + report.age_seconds <= _GOOD_SECONDS for report in recent):
        return _Link.GOOD
    return _Link.UNSURE


class VerdictDebouncer:
    """Debouncer of the verdict: a verdict takes effect once it has been the same for `_HOLD_SECONDS`."""

    def __init__(self) -> None:
        self._victims: list[str] = []
        self._since = 0.0

    def update(self, chosen: list[str], now: float) -> list[str]:
        """The members to act on: all of those `chosen` at this look, or none."""
        if chosen != self._victims:
            self._victims, self._since = chosen, now
        return chosen if now - self._since >= _HOLD_SECONDS else []
