"""Reads of logs that may be merged into another node's log meanwhile (`kvwal.store.root_nodes.merge`).

A merge appends the entries of a log to another log, and then removes the first one. A reader that has read the other log before
and comes to the first one afterwards would find the entries in neither. So it reads again if a log has gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from kvwal.entry import Entry
from kvwal.history.reads.tail_reader import Identity, latest_of
from kvwal.log.files.names import find_places, log_folder
from kvwal.ports.disk import Disk
from kvwal_archive.layout import Place

T = TypeVar("T")


def read_settled(
    disk: Disk, root: Path, find: Callable[[], Sequence[Place]], read: Callable[[Sequence[Place]], T]
) -> T:
    """The result of `read(find())`, read again as long as one of the logs went while they were read."""
    while True:
        places = find()
        there = [place for place in places if _exists(disk, root, place)]
        result = read(places)
        if all(_exists(disk, root, place) for place in there):
            return result


def live_entry(
    disk: Disk,
    root: Path,
    namespace: str,
    cluster: str,
    business: str,
    node: str | None,
    identity: Identity,
    now_ms: int,
) -> Entry | None:
    """The latest entry of one identity over the nodes (or of one node), None if it is absent."""

    def find() -> list[Place]:
        places = find_places(disk, root, namespace, cluster, business)
        return [place for place in places if node in (None, place.node)]

    return read_settled(disk, root, find, lambda places: latest_of(disk, root, places, identity, now_ms))


def _exists(disk: Disk, root: Path, place: Place) -> bool:
    return disk.is_folder(log_folder(root, place))
