"""The rows of a structure, or of all queues, among the rows of an archive; and the columns that only items of queues have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.codecs import registry
from kvwal.entry import Entry
from kvwal.errors import InvalidName
from kvwal.history.reads.range_reader import live_entries
from kvwal.key_class import PROVENANCE, QUEUE, kind_of, structure_of
from kvwal.ports.disk import Disk
from kvwal.structures.memory import STRUCTURES
from kvwal.structures.queue.positions import is_of_any_queue, is_of_queue, item_class, place_of
from kvwal_archive.layout import Place, check_name
from kvwal_archive.parquet.key_ranges import KeyRange, class_range, structure_ranges

if TYPE_CHECKING:
    import pyarrow as pa

ALL_QUEUES = f"{QUEUE}/*"
"""All queues of a business together. `*` is in no name."""


def is_selection(structure: str) -> bool:
    """Whether this is the name of a structure of a known kind whose entries are content, or `ALL_QUEUES`."""
    kind, slash, name = structure.partition("/")
    if kind == PROVENANCE:
        return False
    if kind not in STRUCTURES or not slash or structure == ALL_QUEUES:
        return kind in STRUCTURES
    try:
        return bool(check_name(kind, name))
    except InvalidName:
        return False


def is_of_queues(structure: str) -> bool:
    """Whether the rows of this selection are items of queues."""
    return kind_of(structure) == QUEUE


def is_selected(key_class: str, structure: str) -> bool:
    """Whether rows of a class are of the selection. Of queues only items are."""
    if is_of_queues(structure):
        return is_of_queue(key_class) if structure == ALL_QUEUES else key_class == item_class(structure)
    return structure_of(key_class) == structure


def is_part_of(key_class: str, structure: str) -> bool:
    """Whether entries of a class are of the structure, or of one of the queues of `ALL_QUEUES`. Of queues also those that are no
    items: see `is_selected`.
    """
    return is_of_any_queue(key_class) if structure == ALL_QUEUES else structure_of(key_class) == structure


def selected_ranges(structure: str) -> tuple[KeyRange, ...]:
    """The identities that rows of the selection can have, sorted."""
    if is_of_queues(structure) and structure != ALL_QUEUES:
        return (class_range(item_class(structure)),)
    return tuple(structure_ranges(structure))


def selected_rows(rows: pa.RecordBatch, structure: str) -> pa.RecordBatch:
    """The rows of the selection. Also of a table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [name for name in pc.unique(rows.column("key_class")).to_pylist() if is_selected(name, structure)]
    return rows.filter(pc.is_in(rows.column("key_class"), value_set=pa.array(names, pa.string())))


def live_of_structure(disk: Disk, root: Path, places: Sequence[Place], structure: str, now_ms: int) -> Iterator[Entry]:
    """The live entries of the selection in these logs, in the order of identity: see `range_reader.live_entries`."""
    ranges = selected_ranges(structure)
    shows = partial(is_selected, structure=structure)
    return live_entries(disk, root, places, ranges[0].low, ranges[-1].high, now_ms, shows)


def place_columns(keys: Sequence[bytes], key_classes: Sequence[str]) -> dict[str, pa.Array]:
    """The columns `structure`, `priority` and `position` of items of queues.

    Raises `CodecError` for a key that is no place in a queue.
    """
    import pyarrow as pa

    places = [place_of(registry.decode_key(key, "int")) for key in keys]
    return {
        "structure": pa.array([structure_of(name) for name in key_classes], pa.string()),
        "priority": pa.array([priority for priority, _ in places], pa.int32()),
        "position": pa.array([position for _, position in places], pa.int64()),
    }
