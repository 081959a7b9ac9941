"""Compaction (`kvwal archive rewrite`): many small objects, or objects full of replaced entries, become one.

`plan` decides from footers alone. `run` reads the inputs, drops replaced entries, and puts the output beside the inputs. The
inputs stay, superseded by the output's name, until `gc` removes them. Every step may be killed and run again, also by several
processes at once: an output's name tells its contents, and it is put only if it is absent.

Compaction keeps every entry from the horizon on, and of the older entries the latest of each identity, also a tombstone. A
tombstone goes from the oldest object of a log when no other object holds, or may still get, an older row of its key
(`tombstones`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import LOGICAL_BITS, Place, Span
from kvwal_archive.maintenance.events import Apart, has_events, put_events, without_events
from kvwal_archive.maintenance.tombstones import Others, TombstoneFilter, others_of
from kvwal_archive.merge import MergeSource, all_batches
from kvwal_archive.objects import Objects, open_copy
from kvwal_archive.parquet.metadata import check_unchanged, read_footer
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.parquet.rows import COLUMNS, IDENTITY, ObjectInfo, same_as_before, schema
from kvwal_archive.reader import checked_file, list_spans, listed_again, live_objects, read_info
from kvwal_archive.writer import Stored, put_file, write_file

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, str], None]

DAY_MS = 86_400_000
HISTORY_MS = 7 * DAY_MS
MAX_BYTES = 256 << 20  # of keys and values of the inputs, whose copies and output are files of about this size each
MIN_INPUTS = 4
SIZE_RATIO = 2
SMALL_BYTES = 64 << 10  # objects below it count as equal: what they cost is their number
GARBAGE_RATIO = 0.25


class Rewrite(NamedTuple):
    """One compaction: neighbouring live objects of one log, and the horizon below which their history is compacted.

    `oldest`: they are the first objects of their log.
    """

    inputs: tuple[ObjectInfo, ...]
    horizon: int
    oldest: bool = False


def rewrite(
    objects: Objects,
    place: Place,
    *,
    now_ms: int,
    history_ms: int = HISTORY_MS,
    force: bool = False,
    progress: Progress | None = None,
    apart: Apart | None = None,
) -> list[Stored]:
    """Compact the objects of the place as `plan` decides, and return the new objects. The inputs stay until `gc`.

    `now_ms` is unix milliseconds. Every entry is kept for `history_ms`. `force` merges and compacts all objects, also where
    little is gained. The events that `apart` names go into objects of their
    own. Raises ArchiveDamaged if an input is not what was put, ArchiveError if the archive cannot be reached.
    """

    def read() -> list[Stored]:
        infos = live_objects(objects, place)
        jobs = plan(infos, now_ms=now_ms, history_ms=history_ms, force=force)
        if apart is not None:
            jobs += _of_old_events(objects, infos, jobs, apart, max(0, now_ms - history_ms) << LOGICAL_BITS)
        stored = []
        for done, job in enumerate(jobs):
            if progress:
                progress(done, len(jobs), f"{place.prefix} {job.inputs[0].span.first}–{job.inputs[-1].span.last}")
            output = run(objects, place, job, apart)
            stored += [output] if output else []
        if progress:
            progress(len(jobs), len(jobs), place.prefix)
        return stored

    return listed_again(read)


def _of_old_events(
    objects: Objects, infos: Sequence[ObjectInfo], jobs: Sequence[Rewrite], apart: Apart, horizon: int
) -> list[Rewrite]:
    """The compactions of objects that are not worth one, all of whose rows have passed the horizon, for the events in them."""
    planned = {info.key for job in jobs for info in job.inputs}
    old = [
        info for info in infos if info.key not in planned and info.span.horizon <= info.footer.max_timestamp < horizon
    ]
    return [Rewrite((info,), horizon, info is infos[0]) for info in has_events(objects, old, apart)]


def plan(
    infos: Sequence[ObjectInfo], *, now_ms: int, history_ms: int = HISTORY_MS, force: bool = False
) -> list[Rewrite]:
    """The compactions to do for the live objects `infos`, which are in log order. Pure.

    At least MIN_INPUTS neighbours of similar size are merged. From the newest object back, an object joins a group while it
    is at most SIZE_RATIO times the group's size: so an entry is rewritten a logarithmic number of times. A smaller group is
    compacted if GARBAGE_RATIO of its rows are likely to go. No group crosses a gap, or the end of a log.
    """
    horizon = max(0, now_ms - history_ms) << LOGICAL_BITS
    groups = [
        (group, group[0] is neighbours[0])
        for neighbours in _neighbours(infos)
        for group in _grouped(neighbours, SIZE_RATIO if not force else None)
    ]
    return [Rewrite(tuple(group), horizon, oldest) for group, oldest in groups if _is_worth_it(group, horizon, force)]


def _neighbours(infos: Sequence[ObjectInfo]) -> list[list[ObjectInfo]]:
    """The objects in runs. A run has no gap, and objects of one log only."""
    runs: list[list[ObjectInfo]] = []
    for info in infos:
        before = runs[-1][-1] if runs else None
        if before and before.footer.log_id == info.footer.log_id and info.span.first <= before.span.last + 1:
            runs[-1].append(info)
        else:
            runs.append([info])
    return runs


def _grouped(neighbours: Sequence[ObjectInfo], ratio: int | None) -> list[list[ObjectInfo]]:
    """The groups of a run, the newest first. A group has at most MAX_BYTES, and no object is too large for it by `ratio`."""
    groups: list[list[ObjectInfo]] = []
    group_bytes = 0
    for info in reversed(neighbours):
        size = info.footer.data_bytes
        fits = group_bytes + size <= MAX_BYTES and (ratio is None or size <= ratio * max(group_bytes, SMALL_BYTES))
        if groups and fits:
            groups[-1].insert(0, info)
            group_bytes += size
        else:
            groups.append([info])
            group_bytes = size
    return groups


def _is_worth_it(group: Sequence[ObjectInfo], horizon: int, force: bool) -> bool:
    if len(group) >= (2 if force else MIN_INPUTS):
        return True
    expected = sum(_garbage_rows(info, horizon) for info in group)
    return expected > 0 if force else expected >= GARBAGE_RATIO * sum(info.footer.rows for info in group)


def _garbage_rows(info: ObjectInfo, horizon: int) -> float:
    """The number of rows of one object that a compaction is likely to drop.

    They are the rows that have a newer row of their identity in the object, and lie between its horizon and the new one.
    """
    footer = info.footer
    oldest = max(footer.min_timestamp, footer.horizon)
    if horizon <= oldest:
        return 0
    part = min(1.0, (horizon - oldest) / max(1, footer.max_timestamp - oldest))
    return (footer.rows - footer.identities) * part


def run(objects: Objects, place: Place, job: Rewrite, apart: Apart | None = None) -> Stored | None:
    """Make the output of one job, and return it when it is confirmed; None if it would equal its only input.

    The events that `apart` names are put before it, and left out of it. A job without a horizon leaves nothing out.

    The caller need not own the place, because the output holds no entry that its inputs did not hold. Raises ArchiveDamaged if
    an input is not what was put, ObjectMissing if it is gone.
    """
    apart = apart if job.horizon else None
    kept = _KeptRows(objects, place, job, apart)
    # The inputs are copied, and the output is at most as large as they are.
    need = sum(info.size for info in job.inputs) * (2 if objects.copies_on_fetch else 1)
    with objects.scratch(need) as folder, ExitStack() as opened:
        files = [opened.enter_context(open_copy(checked_file(objects, info, folder))) for info in job.inputs]
        if apart is not None:
            put_events(objects, place, job.inputs, files, apart, kept.events_until)
        sources = [
            MergeSource(place.node, [file], row_bytes=info.row_bytes)
            for file, info in zip(files, job.inputs, strict=True)
        ]
        output = folder / "output"
        footer = write_file(output, place, kept.span, kept.batches(all_batches(sources)), _seals(job))
        if footer is None or footer.span == job.inputs[0].span:
            return None
        return put_file(objects, footer, output)


class _KeptRows:
    """The rows that the output of a job keeps, as a stream, and its span, which is known after the last of them."""

    def __init__(self, objects: Objects, place: Place, job: Rewrite, apart: Apart | None) -> None:
        self._job = job
        self._apart = apart
        self._kept = 0
        newest = max(info.footer.max_timestamp for info in job.inputs)
        self.events_until = min(job.horizon, newest)
        """Events before it are left out. The newest row stays: an object has a row, and its end is known."""
        self._without: Callable[[pa.Table], pa.Table] | None = None
        if job.oldest:
            self._without = TombstoneFilter(objects, job.horizon, newest, _other_objects(objects, place, job))

    def batches(self, merged: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The kept ones of all rows of the inputs, which come in their order."""
        import pyarrow as pa

        before: pa.Table | None = None
        for batch in merged:
            rows = pa.Table.from_batches([batch]).select(list(COLUMNS)).cast(schema())
            kept = _compacted(rows, before, self._job.horizon)
            before = rows.slice(len(rows) - 1)
            if self._apart is not None:
                kept = without_events(kept, self._apart, self.events_until)
            if self._without is not None and len(kept):
                kept = self._without(kept)
            self._kept += len(kept)
            yield from kept.combine_chunks().to_batches()

    def span(self) -> Span:
        """The output's span. It has a later horizon than the inputs if a row was left out."""
        inputs = self._job.inputs
        earlier = max(info.span.horizon for info in inputs)
        has_removed = self._kept < sum(info.footer.rows for info in inputs)
        horizon = max(earlier, self._job.horizon) if has_removed else earlier
        return Span(inputs[0].span.first, max(info.span.last for info in inputs), horizon)


def _compacted(rows: pa.Table, before: pa.Table | None, horizon: int) -> pa.Table:
    """`compact_rows` of the next rows of a stream. `before` is the row before them, None if there is none."""
    import pyarrow as pa

    if before is None:
        return compact_rows(rows, horizon)
    kept = compact_rows(pa.concat_tables([before, rows]).combine_chunks(), horizon)
    return kept.slice(1)  # the first row of a table always stays


def _other_objects(objects: Objects, place: Place, job: Rewrite) -> Others:
    """All objects that may hold older rows than the job's inputs: those of other nodes, and of earlier logs of the place."""
    others = others_of(objects, place)
    before = [info for info in live_objects(objects, place) if info.span.last < job.inputs[0].span.first]
    return others._replace(infos=[*others.infos, *before])


def _seals(job: Rewrite) -> Seals:
    """The output's part of the chain of seals: the crc before its first entry, and the crc of its last seal."""
    last = max(job.inputs, key=lambda info: info.span.last)
    return Seals(job.inputs[0].footer.log_id, job.inputs[0].footer.previous_crc, last.footer.seal_crcs[-1:])


def compact_rows(table: pa.Table, horizon: int) -> pa.Table:
    """The rows of one node that compaction keeps. Pure.

    Each sequence is kept once: all rows from the timestamp `horizon` on, and of the older ones the latest of each identity.
    `table` is sorted and not empty, and so is the result.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    same = same_as_before(table, IDENTITY)
    sequence = table.column("sequence").combine_chunks()
    older = pc.less(table.column("timestamp").combine_chunks(), horizon)
    # Rows are newest first: a row is replaced if the row before it has its identity and is older than the horizon too.
    replaced = pc.and_(same, older[:-1])
    repeated = pc.and_(same, pc.equal(sequence[1:], sequence[:-1]))
    goes = pa.concat_arrays([pa.array([False]), pc.or_(replaced, repeated)])
    return table.filter(pc.invert(goes))


def _superseded(
    objects: Objects, spans: Mapping[Span, tuple[str, int, int]], by: ObjectInfo, live: Sequence[ObjectInfo]
) -> list[str]:
    """The keys of the objects of the same log that `by` supersedes. An object whose footer is damaged is left to `verify`.

    `spans` are all objects of the place.
    """
    candidates = [spans[span] for span in spans if by.span.supersedes(span) and all(span != info.span for info in live)]
    keys = []
    for candidate in candidates:
        try:
            footer = read_info(objects, *candidate).footer
        except ArchiveDamaged:
            continue
        if footer.log_id == by.footer.log_id:
            keys.append(candidate[0])
    return keys


def _check_bytes(objects: Objects, info: ObjectInfo) -> None:
    """Read and check every byte of an object. Raises as `read_rows`."""
    if not objects.copies_on_fetch:  # no folder is needed: gc must succeed on a full disk
        with objects.open(info.key) as file:
            check_unchanged(read_footer(file, info.key, whole=True), info)
        return
    with objects.scratch(info.size) as folder:
        checked_file(objects, info, folder)


def gc(objects: Objects, place: Place, *, now_ms: int, grace_ms: int, progress: Progress | None = None) -> list[str]:
    """Remove superseded objects, and unfinished files of killed puts, and return their keys.

    An object is removed only if a live object supersedes it that was made at least `grace_ms` ago, by the backend's clock, and
    every byte of which was just read and checked. Objects of foreign logs stay. Raises ArchiveDamaged if a superseding object
    is not what was put; then no object that it supersedes is removed.
    """
    live = listed_again(lambda: live_objects(objects, place))
    old_enough = [info for info in live if info.modified_ms <= now_ms - grace_ms]
    spans = list_spans(objects, place) if old_enough else {}
    superseded = [(info, keys) for info in old_enough if (keys := _superseded(objects, spans, info, live))]
    removed: list[str] = []
    for done, (info, keys) in enumerate(superseded):
        if progress:
            progress(done, len(superseded), info.key)
        _check_bytes(objects, info)
        for key in keys:
            objects.delete(key)
            removed.append(key)
    return removed + objects.remove_unfinished(place.prefix, now_ms - grace_ms)
