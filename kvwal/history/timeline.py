"""The timeline of a business: the history of a key and earlier states, from the archive and the logs together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive import view
from archive.layout import Place
from archive.objects import Objects
from archive.parquet import rows
from archive.reader import coverage, listed_again
from archive.registry import registered
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, Entry, make_entry
from kvwal.errors import BeforeHistory
from kvwal.history.tail_reader import Identity, LatestOfEach, OfIdentity, Reading, S, read_log
from kvwal.hlc import to_text
from kvwal.ports.disk import Disk
from kvwal.structures.state import State, to_state

if TYPE_CHECKING:
    import pyarrow as pa

Columns = tuple[bytes, str, bytes, str, bool, int, int]
_VALUES = tuple(name for name in rows.COLUMNS if name != "sequence")
_values = attrgetter(*_VALUES)


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
    ) -> None:
        """`places` are the logs under the root to read. With `all_nodes` every registered node of the archive is read too.

        Entries of the segments behind the sequence `until` are left out, because a log that is open here may have written
        more than is durable.
        """
        self._disk = disk
        self._root = root
        self._places = places
        self._objects = objects
        self._all_nodes = all_nodes
        self._until = until

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

    def as_of(self, timestamp: int) -> State:
        """The state after all entries at or before `timestamp`. Its clock stands at `timestamp`."""
        readings = [(place, self._read(place, lambda: LatestOfEach(timestamp))) for place in self._places]
        if self._objects is not None:
            tails = [(place.node, to_table(reading.sink.rows)) for place, reading in readings]
            return self._merged(self._objects, tails, timestamp)
        for place, reading in readings:
            _check_reaches(place, reading, timestamp)
        return to_state(_latest([reading.sink for _, reading in readings]), _stopped_clock(timestamp))

    def unarchived(self, archived: int, identity: Identity | None, timestamp: int) -> pa.Table:
        """The entries of the only log behind the sequence `archived`, as rows.

        They are every change of `identity`; if that is None, the latest entry of each identity at or before `timestamp`.
        """
        [place] = self._places

        def sink() -> OfIdentity | LatestOfEach:
            return LatestOfEach(timestamp) if identity is None else OfIdentity(identity)

        reading = read_log(self._disk, self._root, place, sink, archived=lambda log_id: archived, until=self._until)
        return to_table(reading.sink.rows)

    def _merged(self, objects: Objects, tails: view.Tails, timestamp: int) -> State:
        """The state at `timestamp` of the archive and these tails. It is built one batch at a time."""
        first, nodes = self._first_place(), self._nodes()

        def merge() -> State:
            state = State(_stopped_clock(timestamp))
            node_parts = view.latest_parts(objects, first.namespace, first.cluster, first.business, nodes, timestamp)
            for batch in view.latest_of(objects, node_parts, tails, timestamp):
                state.apply([entry for entry in entries_of(batch) if not entry.deleted])
            return state

        return listed_again(merge)

    def _read(self, place: Place, sink: Callable[[], S]) -> Reading[S]:
        """Read the entries that only the log holds; the snapshot too, if the archive does not reach the segments."""
        objects = self._objects

        def archived(log_id: str) -> int:
            return 0 if objects is None else coverage(objects, place, log_id).last

        return read_log(self._disk, self._root, place, sink, archived=archived, until=self._until)

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


def _latest(sinks: Iterable[LatestOfEach]) -> list[Entry]:
    latest: dict[Identity, Entry] = {}
    for sink in sinks:
        for identity, (_, entry) in sink.latest.items():
            other = latest.get(identity)
            if other is None or entry.timestamp >= other.timestamp:
                latest[identity] = entry
    return list(latest.values())


def to_table(numbered: Sequence[tuple[int, Entry]]) -> pa.Table:
    """Entries with their sequences as rows of the archive."""
    import pyarrow as pa

    by_column = zip(*map(_values, (entry for _, entry in numbered)), strict=True) if numbered else ((),) * len(_VALUES)
    columns: dict[str, list[Any]] = {name: list(values) for name, values in zip(_VALUES, by_column, strict=True)}
    columns["sequence"] = [sequence for sequence, _ in numbered]
    return pa.table(columns, schema=rows.SCHEMA)


def to_bytes(table: pa.Table) -> bytes:
    """Rows as an Arrow stream; empty if there are no rows."""
    import pyarrow as pa

    if not table.num_rows:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_bytes(data: bytes) -> pa.Table:
    """The rows of `to_bytes`."""
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all() if data else to_table([])


def entries_of(table: pa.Table | pa.RecordBatch) -> Iterable[Entry]:
    """Rows of the archive as entries, in their order."""
    return (make_entry(*values) for values in _values_of(table))


def data_entries_of(table: pa.Table | pa.RecordBatch) -> list[DataEntry]:
    """Rows of the archive as entries for callers, in their order."""
    return [DataEntry(*values) for values in _values_of(table)]


def _values_of(table: pa.Table | pa.RecordBatch) -> Iterable[tuple[Any, ...]]:
    return zip(*(table.column(name).to_pylist() for name in rows.COLUMNS if name != "sequence"), strict=True)


def each_once(entries: list[Entry]) -> list[DataEntry]:
    """The entries, newest first, without the copies that a restore under another node's name made."""
    return list(dict.fromkeys(entry.public() for entry in entries))
