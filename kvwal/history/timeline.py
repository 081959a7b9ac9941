"""The past of a business: what the archive holds of it, and what is still only in the logs here, as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


class Past:
    """Reads the past of one business over some nodes. `objects` None: there is no archive, only what the logs still hold."""

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
        """`places` are the logs under the root that count; with `all_nodes` every registered node of the archive counts too.

        Of their segments only what is not behind the sequence `until` is told: a log that is open here has written more than
        is durable.
        """
        self._disk = disk
        self._root = root
        self._places = places
        self._objects = objects
        self._all_nodes = all_nodes
        self._until = until

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """Every change of an identity, newest first, each once."""
        read = [(place.node, self._read(place, lambda: OfIdentity((key_class, key)))) for place in self._places]
        if self._objects is None:
            entries = [entry for _, found in read for _, entry in found.sink.rows]
        else:
            first = self._first_place()
            table = view.history(
                self._objects, first.namespace, first.cluster, first.business,
                key_class=key_class, key=key, nodes=self._nodes(),
                tails=[(node, to_table(found.sink.rows)) for node, found in read],
            )  # fmt: skip
            entries = list(entries_of(table))
        return each_once(sorted(entries, key=lambda entry: -entry.timestamp))

    def as_of(self, timestamp: int) -> State:
        """Memory as it was after all entries at or before `timestamp`, its clock standing there."""
        read = [(place, self._read(place, lambda: LatestOfEach(timestamp))) for place in self._places]
        if self._objects is not None:
            tails = [(place.node, to_table(found.sink.rows)) for place, found in read]
            return self._merged(self._objects, tails, timestamp)
        for place, found in read:
            _check_reaches(place, found, timestamp)
        return to_state(_latest([found.sink for _, found in read]), _standing(timestamp))

    def unarchived(self, archived: int, identity: Identity | None, timestamp: int) -> pa.Table:
        """Of the one log that counts, what stands behind the sequence `archived`, as rows: every change of `identity`, or without
        one the latest of each that is not younger than `timestamp`."""
        [place] = self._places

        def sink() -> OfIdentity | LatestOfEach:
            return LatestOfEach(timestamp) if identity is None else OfIdentity(identity)

        found = read_log(self._disk, self._root, place, sink, archived=lambda log_id: archived, until=self._until)
        return to_table(found.sink.rows)

    def _merged(self, objects: Objects, tails: view.Tails, timestamp: int) -> State:
        """Memory as of then, of what the archive and these tails hold: a batch at a time."""
        first, nodes = self._first_place(), self._nodes()

        def merge() -> State:
            state = State(_standing(timestamp))
            found = view.parts(objects, first.namespace, first.cluster, first.business, nodes, timestamp)
            for batch in view.latest_of(objects, found, tails, timestamp):
                state.apply([entry for entry in entries_of(batch) if not entry.deleted])
            return state

        return listed_again(merge)

    def _read(self, place: Place, sink: Callable[[], S]) -> Reading[S]:
        """What only the log holds of a node; its snapshot too, if the archive does not reach it yet."""
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
            found = registered(self._objects, first.namespace, first.cluster, first.business)
            nodes |= {place.node: None for place in found}
        return nodes


def _standing(timestamp: int) -> Callable[[], int]:
    return lambda: timestamp >> TIMESTAMP_SHIFT


def _check_reaches(place: Place, found: Reading[Any], timestamp: int) -> None:
    if found.snapshot is not None and found.first > 1 and timestamp < found.snapshot.last_timestamp:
        raise BeforeHistory(
            f"{'/'.join(place)}: without an archive the past ends at the last checkpoint,"
            f" {to_text(found.snapshot.last_timestamp)}.",
            hint="Ask for a later time, or open the store with an archive.",
        )


def _latest(sinks: Iterable[LatestOfEach]) -> list[Entry]:
    latest: dict[Identity, Entry] = {}
    for sink in sinks:
        for identity, (_, entry) in sink.found.items():
            other = latest.get(identity)
            if other is None or entry.timestamp >= other.timestamp:
                latest[identity] = entry
    return list(latest.values())


def to_table(numbered: Sequence[tuple[int, Entry]]) -> pa.Table:
    """Entries with their sequences as rows of the archive."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {
        name: [getattr(entry, name) for _, entry in numbered] for name in rows.COLUMNS if name != "sequence"
    }
    columns["sequence"] = [sequence for sequence, _ in numbered]
    return pa.table(columns, schema=rows.SCHEMA)


def to_bytes(table: pa.Table) -> bytes:
    """Rows as a stream of Arrow; nothing if there are none."""
    import pyarrow as pa

    if not table.num_rows:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def from_bytes(data: bytes) -> pa.Table:
    """The rows of `to_bytes`."""
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all() if data else to_table([])


def entries_of(table: pa.Table | pa.RecordBatch) -> Iterable[Entry]:
    """Rows of the archive as entries, in their order."""
    columns = [table.column(name).to_pylist() for name in rows.COLUMNS if name != "sequence"]
    return (make_entry(*values) for values in zip(*columns, strict=True))


def each_once(entries: list[Entry]) -> list[DataEntry]:
    """Entries newest first without the copies that a restore under another node's name made."""
    return list(dict.fromkeys(entry.public() for entry in entries))
