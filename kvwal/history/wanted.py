"""Reads of the keys that a caller wants, from the files of a log: other entries are dropped block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from pathlib import Path

from archive.layout import Place
from kvwal.entry import Entry, is_live
from kvwal.history.tail_reader import read_log
from kvwal.ports.disk import Disk

Wanted = Callable[[bytes], object]
"""A test of a key's bytes, true of the keys that are read."""


class LatestWanted:
    """A sink that keeps the latest entry of every wanted key of the class `str`, deletes included.

    A snapshot has each key once, in order. So only the keys of the segments, which are few, go into a dict.
    """

    key: bytes | None = None

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._snapshot: list[Entry] = []
        self._tail: dict[bytes, Entry] = {}

    def take(self, first: int, entries: list[Entry]) -> None:
        """See `tail_reader.Sink.take`."""
        self._tail.update({entry.key: entry for entry in self._of(entries)})

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """See `tail_reader.Sink.take_snapshot`."""
        self._snapshot += self._of(entries)

    def latest(self) -> list[Entry]:
        """The entries. They are in the order of their keys if no segment had any."""
        tail = self._tail
        kept = [entry for entry in self._snapshot if entry.key not in tail] if tail else self._snapshot
        return [*kept, *tail.values()]

    def _of(self, entries: list[Entry]) -> list[Entry]:
        wanted = self._wanted
        return [entry for entry in entries if wanted(entry.key) and entry.key_class == "str"]


def wanted_entries(disk: Disk, root: Path, places: Iterable[Place], wanted: Wanted, now_ms: int) -> list[Entry]:
    """The live entries over the logs of several nodes whose keys are text and wanted, in the order of their keys."""
    nodes = [
        read_log(disk, root, place, lambda: LatestWanted(wanted)).sink.latest()
        for place in sorted(places, key=attrgetter("node"))
    ]
    latest = nodes[0] if len(nodes) == 1 else _newest(nodes)
    live = [entry for entry in latest if is_live(entry, now_ms)]
    live.sort(key=attrgetter("key"))
    return live


def _newest(nodes: list[list[Entry]]) -> list[Entry]:
    """The newest entry of each key. Of two entries of one moment that of the later node wins."""
    merged: dict[bytes, Entry] = {}
    for entries in nodes:
        for entry in entries:
            other = merged.get(entry.key)
            if other is None or entry.timestamp >= other.timestamp:
                merged[entry.key] = entry
    return list(merged.values())
