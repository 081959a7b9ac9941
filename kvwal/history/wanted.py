"""Reads of the keys that a caller wants, from the files of a log: other entries are dropped block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from pathlib import Path

from archive.layout import Place
from kvwal.entry import Entry
from kvwal.history.tail_reader import read_log
from kvwal.ports.disk import Disk

Wanted = Callable[[bytes], object]
"""A test of a key's bytes, true of the keys that are read."""


class LatestWanted:
    """A sink that keeps the latest entry of every wanted key of the class `str`, deletes included."""

    key: bytes | None = None

    def __init__(self, wanted: Wanted) -> None:
        self.latest: dict[bytes, Entry] = {}
        self._wanted = wanted

    def take(self, first: int, entries: list[Entry]) -> None:
        """See `tail_reader.Sink.take`."""
        wanted = self._wanted
        self.latest.update({entry.key: entry for entry in entries if entry.key_class == "str" and wanted(entry.key)})

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """See `tail_reader.Sink.take_snapshot`."""
        self.take(last, entries)


def wanted_entries(disk: Disk, root: Path, places: Iterable[Place], wanted: Wanted, now_ms: int) -> list[Entry]:
    """The live entries over the logs of several nodes whose keys are text and wanted, in the order of their keys."""
    merged: dict[bytes, Entry] = {}
    for place in sorted(places, key=attrgetter("node")):
        latest = read_log(disk, root, place, lambda: LatestWanted(wanted)).sink.latest
        if not merged:
            merged = latest
            continue
        for key, entry in latest.items():
            other = merged.get(key)
            if other is None or entry.timestamp >= other.timestamp:
                merged[key] = entry
    live = [entry for entry in merged.values() if not entry.deleted and not 0 < entry.expires <= now_ms]
    live.sort(key=attrgetter("key"))
    return live
