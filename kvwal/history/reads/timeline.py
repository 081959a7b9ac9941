"""The timeline of a business: the history of a key and earlier states, from the archive and the logs together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, Entry
from kvwal.errors import BeforeHistory
from kvwal.history.reads.entry_rows import each_once, entries_of, to_table
from kvwal.history.reads.map_rows import map_rows
from kvwal.history.reads.tail_reader import Identity, Reading, S, read_log
from kvwal.hlc import to_text
from kvwal.key_class import OWN_MAP
from kvwal.log.unlocked.known import KnownSegments
from kvwal.log.unlocked.sinks import LatestOfEach, OfIdentity
from kvwal.ports.disk import Disk
from kvwal.structures.destroyed import merged_latest
from kvwal.structures.guards import guards_alone
from kvwal.structures.map.state import MapState, to_state
from kvwal_archive import view
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.lost_tails import lost_tails
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.key_ranges import KeyRange
from kvwal_archive.reader import coverage, listed_again
from kvwal_archive.registry import registered

if TYPE_CHECKING:
    import pyarrow as pa


class Timeline:
    """The timeline of one business over some nodes. If `objects` is None, there is no archive: only the logs are read."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        places: Sequence[Place],
        objects: Objects | None,
        *,
        all_nodes: bool,
        until: int | None = None,
        known: KnownSegments | None = None,
    ) -> None:
        """`places` are the logs under the root to read. With `all_nodes` every registered node of the archive is read too.

        Entries of the segments after the sequence `until` are left out, because a log that is open here may have written
        more than is durable. `known` is that of a reader that stays open.
        """
        self._disk = disk
        self._root = root
        self._places = places
        self._objects = objects
        self._all_nodes = all_nodes
        self._until = until
        self._known = known

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """Every change of an identity, newest first, each once."""
        readings = [(place.node, self._read(place, lambda: OfIdentity((key_class, key)))) for place in self._places]
        if self._objects is None:
            entries = [entry for _, reading in readings for _, entry in reading.sink.rows]
        else:
            first = self._first_place()
            table = view.history(
                self._objects, first.namespace, first.cluster, first.business,
                key_class=key_class, key=key, nodes=self._nodes(),
                tails=[(node, to_table(reading.sink.rows)) for node, reading in readings],
            )  # fmt: skip
            entries = list(entries_of(table))
        return each_once(sorted(entries, key=lambda entry: -entry.timestamp))

    def lost_tails(self) -> list[LostTail]:
        """The lost tails of these nodes that are on record in the archive.

        They are changes that were lost with a disk before they were archived.
        """
        if self._objects is None:
            return []
        first = self._first_place()
        return lost_tails(self._objects, first.namespace, first.cluster, first.business, self._nodes())

    def as_of(self, timestamp: int, structure: str = OWN_MAP, within: KeyRange | None = None) -> MapState:
        """The latest entries of a structure, after all changes at or before `timestamp`; with `within` those in that range.

        Its clock is fixed at `timestamp`, so expiry is judged at that time.
        """
        readings = [(place, self._read(place, lambda: LatestOfEach(timestamp, within))) for place in self._places]
        if self._objects is not None:
            tails = [(place.node, to_table(reading.sink.rows)) for place, reading in readings]
            return self._merged(self._objects, tails, timestamp, structure, within)
        for place, reading in readings:
            _check_reaches(place, reading, timestamp)
        latest = [(place.node, reading.sink.entries) for place, reading in readings]
        return to_state(merged_latest(latest, structure).values(), _stopped_clock(timestamp))

    def logged_as_of(self, timestamp: int) -> list[Entry]:
        """The latest entry of each key at or before `timestamp`, without deletes, for a timeline of one log.

        It includes every key class, and entries of a destroyed map.
        """
        [place] = self._places
        reading = self._read(place, lambda: LatestOfEach(timestamp))
        _check_reaches(place, reading, timestamp)
        return [entry for entry in reading.sink.entries.values() if not entry.deleted]

    def unarchived(self, archived: int, identity: Identity | None, timestamp: int) -> pa.Table:
        """The entries of the only log after the sequence `archived`, as rows.

        They are every change of `identity`; if that is None, the latest entry of each identity at or before `timestamp`.
        """
        [place] = self._places

        def sink() -> OfIdentity | LatestOfEach:
            return LatestOfEach(timestamp) if identity is None else OfIdentity(identity)

        reading = read_log(self._disk, self._root, place, sink, archived=lambda log_id: archived, until=self._until)
        return to_table(reading.sink.rows)

    def _merged(
        self, objects: Objects, tails: view.Tails, timestamp: int, structure: str, within: KeyRange | None
    ) -> MapState:
        """The state at `timestamp` of the archive and these tails. It is built one batch at a time."""
        first, nodes = self._first_place(), self._nodes()
        where = (first.namespace, first.cluster, first.business)
        ranges = None if within is None else [within]

        def merge() -> MapState:
            state = MapState(guards_alone(_stopped_clock(timestamp)))
            rows = map_rows(objects, where, nodes=nodes, tails=tails, at=timestamp, ranges=ranges, structure=structure)
            for batch in rows:
                state.apply(list(entries_of(batch)))
            return state

        return listed_again(merge)

    def _read(self, place: Place, sink: Callable[[], S]) -> Reading[S]:
        """Read the entries that only the log holds; the snapshot too, if the archive does not reach the segments."""
        objects = self._objects

        def archived(log_id: str) -> int:
            return 0 if objects is None else coverage(objects, place, log_id).last

        return read_log(self._disk, self._root, place, sink, archived=archived, until=self._until, known=self._known)

    def _first_place(self) -> Place:
        return self._places[0]

    def _nodes(self) -> dict[str, int | None]:
        nodes: dict[str, int | None] = {place.node: None for place in self._places}
        if self._all_nodes and self._objects is not None:
            first = self._first_place()
            places = registered(self._objects, first.namespace, first.cluster, first.business)
            nodes |= {place.node: None for place in places}
        return nodes


def _stopped_clock(timestamp: int) -> Callable[[], int]:
    return lambda: timestamp >> TIMESTAMP_SHIFT


def _check_reaches(place: Place, reading: Reading[Any], timestamp: int) -> None:
    """Raise `BeforeHistory` if the log's segments do not reach back to `timestamp`."""
    snapshot = reading.snapshot
    if snapshot is not None and reading.first > 1 and timestamp < snapshot.last_timestamp:
        raise BeforeHistory(
            f"{'/'.join(place)}: without an archive the past ends at the last checkpoint,"
            f" {to_text(snapshot.last_timestamp)}.",
            hint="Ask for a later time, or open the store with an archive.",
        )
