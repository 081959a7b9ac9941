"""Destroyed maps as readers see them: the marks in the logs of a map, and the entries that the marks void.

The latest state of a map has none of the entries before its mark. The history of a key shows them.
This module imports neither asyncio nor Arrow, because `kvwal get` imports it and must be fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from kvwal.config import Settings
from kvwal.entry import AWAY, Ended, Entry, timestamps_within
from kvwal.key_class import DROPPED, OWN_MAP, is_of_map, structure_of

MARKS = ((DROPPED, b""), (DROPPED + "\0", b""))
"""The range of identities that marks have."""
Identity = tuple[str, bytes]
SKEW = timestamps_within(Settings().max_skew_seconds)
"""How far apart the clocks of a map's members may be, for a reader that has no settings of its own."""


class Marks(NamedTuple):
    """The marks of a destroyed map. `own`: by node, the timestamp up to which the mark in its log voids the log's entries.
    `last`: the timestamp of the map's last destruction."""

    own: dict[str, int]
    last: int

    def ended(self, node: str, timestamp: int, skew: int = SKEW) -> bool:
        """Whether a destruction of the map voids an entry of this node's log: its own mark does, or, `skew` before the last
        mark, that of any other node, because a node that had nothing of the map made no mark."""
        return timestamp <= self.until(node, skew)

    def until(self, node: str, skew: int = SKEW) -> int:
        """The timestamp up to which entries of this node's log are void; negative if the map was never destroyed."""
        return max(self.own.get(node, 0), self.last - skew) if self.own else -1

    def shows(self, node: str, entry: Entry, structure: str = OWN_MAP) -> bool:
        """Whether an entry of this node's log is one of the structure, and not void."""
        return structure_of(entry.key_class) == structure and not self.ended(node, entry.timestamp)


def to_marks(found: Iterable[tuple[str, Entry]], at: int | None = None) -> Marks:
    """The marks among these entries of nodes' logs, up to the timestamp `at`. Other entries do not count."""
    marks = [(entry.timestamp, node, entry) for node, entry in found if entry.key_class == DROPPED]
    own: dict[str, int] = {}
    for timestamp, node, entry in sorted(marks, key=itemgetter(0)):
        if entry.key != AWAY and (at is None or timestamp <= at):
            own[node] = 0 if entry.deleted else timestamp
    last = max(own.values(), default=0)
    # A member that came back later marked what had ended before: that counts from when it had.
    for _, node, entry in marks:
        if entry.key == AWAY and not entry.deleted:
            until, destroyed = Ended.of(entry.value)
            if at is None or destroyed <= at:
                own[node] = max(own.get(node, 0), until)
    return Marks(own, last)


class FoundMarks:
    """The marks of several logs, collected while the logs are read."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, bytes], Entry] = {}
        self._marks = Marks({}, 0)

    def add(self, node: str, entries: Iterable[Entry]) -> None:
        """Take the marks among the latest entries of a node's log."""
        new = {(node, entry.key): entry for entry in entries if entry.key_class == DROPPED}
        if new:
            self._found |= new
            self._marks = to_marks((name, entry) for (name, _), entry in self._found.items())

    @property
    def marks(self) -> Marks:
        """The marks found so far."""
        return self._marks


def merged_latest(logs: Iterable[tuple[str, dict[Identity, Entry]]], structure: str = OWN_MAP) -> dict[Identity, Entry]:
    """The latest entry of every key of a structure, by (timestamp, node), of the latest entries of several nodes; deletes
    included.

    Entries of other structures, and those of a map that was destroyed since, are left out.
    """
    merged: dict[Identity, Entry] = {}
    found, classes = FoundMarks(), set[str]()
    first, later = "", dict[Identity, str]()
    for node, latest in logs:
        classes |= (there := {key_class for key_class, _ in latest})
        found.add(node, latest.values() if DROPPED in there else ())
        if not merged:
            merged, first = latest, node
            continue
        for identity, entry in latest.items():
            other = merged.get(identity)
            if other is None or entry.timestamp >= other.timestamp:
                merged[identity] = entry
                later[identity] = node
    shows = found.marks.shows
    if structure == OWN_MAP and all(map(is_of_map, classes)):
        return merged
    hidden = [identity for identity, entry in merged.items() if not shows(later.get(identity, first), entry, structure)]
    for identity in hidden:
        del merged[identity]
    return merged
