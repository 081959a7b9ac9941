"""Every change of all structures of a business that the nodes' logs and the archive hold, read without the locks of the logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.history.feeds.lost_tails import warn_of
from kvwal.history.reads.entry_rows import to_table
from kvwal.history.reads.tail_reader import read_local
from kvwal.ports.disk import Disk
from kvwal_archive.layout import Place
from kvwal_archive.lost_tails import lost_tails
from kvwal_archive.merge import all_rows
from kvwal_archive.objects import Objects
from kvwal_archive.reader import listed_again, read_rows
from kvwal_archive.view import parts

if TYPE_CHECKING:
    import pyarrow as pa


def all_changes(disk: Disk, root: Path, places: Sequence[Place], objects: Objects | None) -> pa.Table:
    """Every change in the logs at these places, newest first, and in their objects of the archive, if there is one.

    An entry that only a snapshot holds has lost its sequence, and gets a negative one.
    """
    logged = [(place.node, _logged(disk, root, place)) for place in places]
    return all_rows([*(_archived(objects, places) if objects is not None else []), *logged])


def archived_changes(objects: Objects, places: Sequence[Place]) -> pa.Table:
    """Every change in the objects that these logs have in an archive, newest first."""
    return all_rows(_archived(objects, places))


def warn_of_lost_tails(objects: Objects | None, places: Sequence[Place]) -> None:
    """Log a warning of each interval of which a lost disk may have taken changes of these logs along."""
    if objects is not None and places:
        first, nodes = places[0], {place.node for place in places}
        warn_of(lost_tails(objects, first.namespace, first.cluster, first.business, nodes))


def _archived(objects: Objects, places: Sequence[Place]) -> list[tuple[str, pa.Table]]:
    """The archived rows of these logs: for each object of the archive, its node and its rows."""
    if not places:
        return []
    first = places[0]
    nodes: dict[str, int | None] = {place.node: None for place in places}

    def read() -> list[tuple[str, pa.Table]]:
        archives = parts(objects, first.namespace, first.cluster, first.business, nodes)
        return [(part.place.node, read_rows(objects, info)) for part in archives for info in part.infos]

    return listed_again(read)


def _logged(disk: Disk, root: Path, place: Place) -> pa.Table:
    """The rows of one log's own files."""
    local = read_local(disk, root, place)
    numbered = [(-1 - index, entry) for index, entry in enumerate(local.snapshot)] if local.tail.first > 1 else []
    numbered += enumerate(local.tail.entries, local.tail.first)
    return to_table(numbered)
