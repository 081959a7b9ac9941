"""The past of a business: what the archive holds of it, and what is still only in the logs here, as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive import rows, view
from archive.layout import Place
from archive.objects import Objects
from archive.reader import coverage
from archive.registry import registered
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, Entry, make_entry
from kvwal.errors import ArchiveGap, BeforeHistory
from kvwal.hlc import to_text
from kvwal.ports.disk import Disk
from kvwal.reading import Local, Tail, read_local
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
        locals_ = self._locals()
        tails = [(place.node, self._rows(place, local, lambda e: e.key == key and e.key_class == key_class))
                 for place, local in locals_]  # fmt: skip
        if self._objects is None:
            entries = [entry for _, table in tails for entry in entries_of(table)]
        else:
            first = self._first_place()
            table = view.history(
                self._objects, first.namespace, first.cluster, first.business,
                key_class=key_class, key=key, nodes=self._nodes(), tails=tails,
            )  # fmt: skip
            entries = list(entries_of(table))
        return each_once(sorted(entries, key=lambda entry: -entry.timestamp))

    def as_of(self, timestamp: int) -> State:
        """Memory as it was after all entries at or before `timestamp`, its clock standing there."""
        locals_ = self._locals()
        if self._objects is None:
            for place, local in locals_:
                _check_reaches(place, local, timestamp)
            entries = _fold(locals_, timestamp)
        else:
            tails = [
                (place.node, self._rows(place, local, lambda e: e.timestamp <= timestamp)) for place, local in locals_
            ]
            first = self._first_place()
            table = view.latest(
                self._objects, first.namespace, first.cluster, first.business,
                nodes=self._nodes(), tails=tails, at=timestamp,
            )  # fmt: skip
            entries = list(entries_of(table))
        return to_state(entries, lambda: timestamp >> TIMESTAMP_SHIFT)

    def _locals(self) -> list[tuple[Place, Local]]:
        return [(place, self._told(read_local(self._disk, self._root, place))) for place in self._places]

    def _told(self, local: Local) -> Local:
        if self._until is None:
            return local
        first, entries = local.tail
        return local._replace(tail=Tail(first, entries[: max(0, self._until - first + 1)]))

    def _first_place(self) -> Place:
        return self._places[0]

    def _nodes(self) -> dict[str, int | None]:
        nodes: dict[str, int | None] = {place.node: None for place in self._places}
        if self._all_nodes and self._objects is not None:
            first = self._first_place()
            found = registered(self._objects, first.namespace, first.cluster, first.business)
            nodes |= {place.node: None for place in found}
        return nodes

    def _rows(self, place: Place, local: Local, wanted: Callable[[Entry], bool]) -> pa.Table:
        """What only the log holds of a node, as rows; its snapshot too, if the archive does not reach it yet."""
        archived = 0 if self._objects is None else coverage(self._objects, place, local.log_id).last
        first, entries = local.tail
        numbered = [(first + index, entry) for index, entry in enumerate(entries) if wanted(entry)]
        if archived + 1 < first:
            if local.snapshot_last < first - 1:
                raise ArchiveGap(
                    f"{'/'.join(place)}: sequences {archived + 1}–{first - 1} are neither in the log nor in the archive.",
                    hint="`kvwal archive verify` and `kvwal log verify` say what is where.",
                )
            numbered = [(local.snapshot_last, entry) for entry in local.snapshot if wanted(entry)] + [
                item for item in numbered if item[0] > local.snapshot_last
            ]
        return to_table(numbered)


def _check_reaches(place: Place, local: Local, timestamp: int) -> None:
    if local.tail.first > 1 and timestamp < local.snapshot_timestamp:
        raise BeforeHistory(
            f"{'/'.join(place)}: without an archive the past ends at the last checkpoint, {to_text(local.snapshot_timestamp)}.",
            hint="Ask for a later time, or open the store with an archive.",
        )


def _fold(locals_: Iterable[tuple[Place, Local]], timestamp: int) -> list[Entry]:
    latest: dict[tuple[str, bytes], Entry] = {}
    for _, local in locals_:
        base = local.snapshot if local.tail.first > 1 else []
        for entry in (*base, *local.tail.entries):
            other = latest.get((entry.key_class, entry.key))
            if entry.timestamp <= timestamp and (other is None or entry.timestamp >= other.timestamp):
                latest[entry.key_class, entry.key] = entry
    return list(latest.values())


def to_table(numbered: Sequence[tuple[int, Entry]]) -> pa.Table:
    """Entries with their sequences as rows of the archive."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {
        name: [getattr(entry, name) for _, entry in numbered] for name in rows.COLUMNS if name != "sequence"
    }
    columns["sequence"] = [sequence for sequence, _ in numbered]
    return pa.table(columns, schema=rows.SCHEMA)


def entries_of(table: pa.Table) -> Iterable[Entry]:
    """Rows of the archive as entries, in their order."""
    columns = [table.column(name).to_pylist() for name in rows.COLUMNS if name != "sequence"]
    return (make_entry(*values) for values in zip(*columns, strict=True))


def each_once(entries: list[Entry]) -> list[DataEntry]:
    """Entries newest first without the copies that a restore under another node's name made."""
    return list(dict.fromkeys(entry.public() for entry in entries))
