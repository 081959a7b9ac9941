"""Objects of events: what only appends and is dropped by age leaves the ordinary rows when these are compacted.

A log has its events in order, and nothing ever replaces one. As ordinary rows they would be written again by each compaction, for
as long as the archive is. So a compaction puts those of its inputs that are older than its horizon into an object of their own
first, and then leaves them out of its output. The objects of events are sorted by time, are merged while they are small, and are
dropped whole.

Their names tell what is in them, and a reader takes an event once, wherever it finds it. So each step may be killed and run
again, also by several processes at once: an event may be in two objects for a while, and is always in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import MAX_NUMBER, EventsName, Place, Span, events_key
from kvwal_archive.merge import MergeSource, latest_batches
from kvwal_archive.objects import Objects, open_copy
from kvwal_archive.parquet.key_ranges import class_range, group_bounds
from kvwal_archive.parquet.metadata import read_footer, read_metadata_of
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.parquet.rows import COLUMNS, Footer, ObjectInfo, schema
from kvwal_archive.reader import checked_file, list_events, read_info
from kvwal_archive.writer import write_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MERGED_OBJECTS = 4
"""The number of neighbours of similar size that are merged into one."""
MERGED_BYTES = 64 << 20
"""About the most bytes of a merged object."""
_SIZE_RATIO = 2
_SMALL_BYTES = 64 << 10
"""Objects below it count as equal."""


class Apart(NamedTuple):
    """The events that are kept apart: the key class of their rows, and how long. Those before the timestamp `before` go; with
    `most_bytes`, the oldest objects go while all have more bytes."""

    key_class: str
    before: int = 0
    most_bytes: int | None = None


def put_events(
    objects: Objects, place: Place, inputs: Sequence[ObjectInfo], files: Sequence[BinaryIO], apart: Apart, until: int
) -> str | None:
    """Put the events in these objects of a log, which were checked and are open as `files`, into an object of their own.

    Only those before the timestamp `until`. Returns its key when it is confirmed; None if there is no event, or none that is to
    be kept.
    """
    sources = [
        MergeSource(place.node, stream, row_bytes=info.row_bytes)
        for info, file in zip(inputs, files, strict=True)
        if (stream := _events_of(file, apart)) is not None
    ]
    return _put(objects, place, sources, apart, _seals(inputs), until) if sources else None


def has_events(objects: Objects, infos: Sequence[ObjectInfo], apart: Apart) -> list[ObjectInfo]:
    """Those of the objects that have events, by their least and greatest keys. Only footers are read."""
    metadata = read_metadata_of(objects, [(info.key, info.size) for info in infos])
    return [info for info, (_, one) in zip(infos, metadata, strict=True) if _groups(one, apart)]


def _groups(metadata: pq.FileMetaData, apart: Apart) -> list[int]:
    wanted = class_range(apart.key_class)
    numbers = range(metadata.num_row_groups)
    return [number for number in numbers if wanted.overlaps(*group_bounds(metadata.row_group(number)))]


def _events_of(file: BinaryIO, apart: Apart) -> Callable[[int], Iterator[pa.RecordBatch]] | None:
    """The events of an object as a stream; None if its row groups have none, by their least and greatest keys."""
    import pyarrow.parquet as pq

    groups = _groups(pq.read_metadata(file), apart)
    wanted = class_range(apart.key_class)

    def stream(rows: int) -> Iterator[pa.RecordBatch]:
        for batch in pq.ParquetFile(file, pre_buffer=False).iter_batches(rows, row_groups=groups):
            if (found := wanted.rows(batch)).num_rows:
                yield found

    return stream if groups else None


def without_events(rows: pa.Table, apart: Apart, until: int) -> pa.Table:
    """The rows without the events before the timestamp `until`."""
    import pyarrow.compute as pc

    is_event = pc.equal(rows.column("key_class"), apart.key_class)
    return rows.filter(pc.invert(pc.and_(is_event, pc.less(rows.column("timestamp"), until))))


def tidy_archived_events(objects: Objects, place: Place, apart: Apart) -> tuple[list[str], list[str]]:
    """Drop the objects of events that are too old or too many, and merge small ones. Returns the keys put, and those removed.

    An object that is damaged stays until it is too old: `verify` tells of it. Raises ArchiveError, ObjectMissing.
    """
    listed = list_events(objects, place)
    left = sum(size for _, size, _ in listed.values())
    removed: list[str] = []
    for name, (key, size, _) in list(listed.items()):
        if name.last >= apart.before and (apart.most_bytes is None or left <= apart.most_bytes):
            break
        objects.delete(key)
        removed.append(key)
        left -= size
        del listed[name]
    written: list[str] = []
    for group in groups_of({name: size for name, (_, size, _) in listed.items()}):
        try:
            merged = _merge(objects, place, [listed[name] for name in group], apart)
        except ArchiveDamaged:
            continue
        gone = [listed[name][0] for name in group if listed[name][0] != merged]
        for key in gone:
            objects.delete(key)
        written += [merged] if merged else []
        removed += gone
    return written, removed


def groups_of(sizes: dict[EventsName, int]) -> list[list[EventsName]]:
    """The objects to merge, of these sizes, in the order of time. Pure.

    As with compaction an object joins the newer ones while it is at most twice as large: so an event is written a logarithmic
    number of times.
    """
    groups: list[list[EventsName]] = []
    group: list[EventsName] = []
    total = 0
    for name in reversed(sizes):
        size = sizes[name]
        if group and (total + size > MERGED_BYTES or size > _SIZE_RATIO * max(total, _SMALL_BYTES)):
            groups.append(group)
            group, total = [], 0
        group.append(name)
        total += size
    return [each for each in [*groups, group] if len(each) >= MERGED_OBJECTS]


def _merge(objects: Objects, place: Place, listed: Sequence[tuple[str, int, int]], apart: Apart) -> str | None:
    infos = [read_info(objects, *item) for item in listed]
    with (
        objects.scratch(sum(info.size for info in infos) if objects.copies_on_fetch else 0) as folder,
        ExitStack() as opened,
    ):
        files = [opened.enter_context(open_copy(checked_file(objects, info, folder))) for info in infos]
        sources = [
            MergeSource(place.node, [file], row_bytes=info.row_bytes) for file, info in zip(files, infos, strict=True)
        ]
        return _put(objects, place, sources, apart, _seals(infos), MAX_NUMBER)


def _seals(inputs: Sequence[ObjectInfo]) -> Seals:
    """Events are no part of the chain of seals: what is told of are the log and its last seal."""
    last = max(inputs, key=lambda info: info.span.last).footer
    return Seals(last.log_id, 0, last.seal_crcs[-1:])


def _put(
    objects: Objects, place: Place, sources: Sequence[MergeSource], apart: Apart, seals: Seals, until: int
) -> str | None:
    rows = _Events(latest_batches(sources), apart, until)
    with objects.scratch(0) as folder:
        path = folder / "events"
        footer = write_file(path, place, rows.span, rows.batches(), seals)
        if footer is None:
            return None
        key = events_key(EventsName(place, footer.min_timestamp, footer.max_timestamp, rows.id()))
        if not objects.put_if_absent(key, path):
            if _has_the_same(objects, key, footer):
                return key
            objects.delete(key)  # it is damaged, and its events are here
            objects.put_if_absent(key, path)
        objects.confirm(key, path)
        return key


def _has_the_same(objects: Objects, key: str, wanted: Footer) -> bool:
    """Whether an object that exists is whole, and has the events that its name says."""
    try:
        with objects.open(key) as file:
            footer = read_footer(file, key, whole=True)
    except ArchiveDamaged:
        return False
    return (footer.place, footer.rows, footer.identities) == (wanted.place, wanted.rows, wanted.identities)


class _Events:
    """The events among rows that come in order, as a stream; their sequences, and the hash of their keys, after the last one."""

    def __init__(self, rows: Iterable[pa.RecordBatch], apart: Apart, until: int) -> None:
        self._rows = rows
        self._until = until
        self._apart = apart
        self._digest = blake2b(digest_size=16)
        self._sequences: list[int] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The events that are kept."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in self._rows:
            rows = pa.Table.from_batches([batch]).select(list(COLUMNS)).cast(schema())
            is_event = pc.equal(rows.column("key_class"), self._apart.key_class)
            at = rows.column("timestamp")
            within = pc.and_(pc.greater_equal(at, self._apart.before), pc.less(at, self._until))
            kept = rows.filter(pc.and_(is_event, within))
            if not len(kept):
                continue
            for key in kept.column("key").to_pylist():
                self._digest.update(key)
            ends = pc.min_max(kept.column("sequence")).as_py()
            self._sequences += [ends["min"], ends["max"]]
            yield from kept.combine_chunks().to_batches()

    def span(self) -> Span:
        """The range of the sequences. The horizon says that others of the range are missing."""
        return Span(min(self._sequences), max(self._sequences), 1)

    def id(self) -> str:
        """The hash of all keys."""
        return self._digest.hexdigest()
