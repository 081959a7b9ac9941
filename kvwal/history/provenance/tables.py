"""Tables of events and of their terms: the columns of the Parquet file that has the events of a range of a log, and its index.

The events stand in the order of the log, and an event is read with some hundred others. The terms are an index: for each number
that stands for something to search for, the rows of the events that have it, sorted (see `terms`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from kvwal.entry import Entry
from kvwal.errors import CodecError
from kvwal.key_class import EVENTS
from kvwal.structures.provenance.event import Event, EventPlace
from kvwal.structures.provenance.query import terms_of
from kvwal.structures.provenance.record import MSGPACK, EventKey, StoredRecord

if TYPE_CHECKING:
    import pyarrow as pa

EVENT_ROWS = 1 << 10
"""Events of a row group: an answer reads a row group for each event in it, if they are far apart."""
EVENT = "event"
"""The column that has the whole event, as MessagePack: its place and its record. So one column is read for it. The others are for
statistics, and for other readers of Parquet.
"""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[EventPlace, StoredRecord]).decode


def schemas() -> tuple[pa.Schema, pa.Schema]:
    """The schemas of events and of terms."""
    import pyarrow as pa

    text = pa.string()
    events = pa.schema(
        [
            ("timestamp", pa.int64()), ("node", text), ("type", text), ("component", text),
            ("structure", text), ("key", text), (EVENT, pa.binary()),
        ]
    )  # fmt: skip
    return events, pa.schema([("term", pa.uint64()), ("row", pa.uint32())])


def tables_of(events: Iterable[Event]) -> tuple[pa.Table, pa.Table]:
    """The tables of some events, which are in the order of the log."""
    import pyarrow as pa

    of_events, of_terms = schemas()
    rows: list[tuple[object, ...]] = []
    terms, numbers = array("Q"), array("I")
    for row, event in enumerate(events):
        whole = _encode((event.place, event.record))
        rows.append(
            (event.timestamp, event.node, event.type, event.component, event.structure, _key_text(event), whole)
        )
        found = set(terms_of(event))
        terms.extend(found)
        numbers.extend([row] * len(found))
    columns = zip(*rows, strict=True) if rows else ((),) * len(of_events)
    events_table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, of_events, strict=True)], of_events
    )
    return events_table, sorted_terms(pa.table([_column(pa.uint64(), terms), _column(pa.uint32(), numbers)], of_terms))


def _column(type: pa.DataType, numbers: array[int]) -> pa.Array:
    """The numbers as a column. They are not copied."""
    import pyarrow as pa

    return pa.Array.from_buffers(type, len(numbers), [None, pa.py_buffer(numbers)])


def joined(parts: Sequence[tuple[pa.Table, pa.Table]]) -> tuple[pa.Table, pa.Table]:
    """The tables of several ranges, one after the other, as those of one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    moved, before = [], 0
    for events, terms in parts:
        rows = pc.add(terms.column("row"), pa.scalar(before, pa.uint32()))
        moved.append(terms.set_column(1, "row", rows))
        before += events.num_rows
    return pa.concat_tables([events for events, _ in parts]), sorted_terms(pa.concat_tables(moved))


def sorted_terms(terms: pa.Table) -> pa.Table:
    """Terms in their order."""
    return terms.sort_by([("term", "ascending"), ("row", "ascending")])


def to_parquet(table: pa.Table) -> bytes:
    """A table of events as the bytes of a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression="zstd", write_page_checksum=True, row_group_size=EVENT_ROWS,
        use_dictionary=["node", "type", "component", "structure"],
    )  # fmt: skip
    data: bytes = sink.getvalue().to_pybytes()
    return data


def entries_of_events(events: Iterable[Event]) -> Iterator[Entry]:
    """The entries of the log that these events, in the order of the log, were read from."""
    for (timestamp, node, part), together in groupby(events, key=lambda event: event.place[:3]):
        key = EventKey(timestamp, part, node).to_bytes()
        yield Entry(key, EVENTS, _encode([event.record for event in together]), MSGPACK, False, timestamp)


def event_of(whole: bytes) -> Event:
    """The event in a value of the column `EVENT`."""
    return Event(*_decode(whole))


def _key_text(event: Event) -> str:
    try:
        return str(event.key)
    except CodecError:
        return ""
