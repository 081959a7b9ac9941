"""Compaction (`kvwal archive rewrite`): many small objects, or objects full of replaced entries, become one.

`plan` decides from footers alone. `run` reads the inputs, drops replaced entries, and puts the output beside the inputs. The
inputs stay, superseded by the output's name, until `gc` removes them. Every step may be killed and run again, also by several
processes at once: an output's name tells its contents, and it is put only if it is absent.

Compaction keeps every entry from the horizon on, and of the older entries the latest of each identity, also a tombstone. A
tombstone goes from the oldest object of a log when no other object holds, or may still get, an older row of its key
(`tombstones`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from archive.errors import ArchiveDamaged
from archive.layout import LOGICAL_BITS, Place, Span
from archive.maintenance.tombstones import Others, others_of, without_tombstones
from archive.objects import Objects
from archive.parquet.rows import IDENTITY, same_as_before, sorted_rows
from archive.reader import ObjectInfo, list_spans, listed_again, live_objects, read_info, read_rows
from archive.writer import Seals, Stored, put_object

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, str], None]

DAY_MS = 86_400_000
HISTORY_MS = 7 * DAY_MS
MAX_BYTES = 256 << 20  # of keys and values: an output, its inputs and the sort fit into memory a few times over
MIN_INPUTS = 4
SIZE_RATIO = 2
SMALL_BYTES = 64 << 10  # objects below it count as equal: what they cost is their number
GARBAGE_RATIO = 0.25


class Rewrite(NamedTuple):
    """One compaction: neighbouring live objects of one log, and the horizon below which their history is thinned out.

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
) -> list[Stored]:
    """Compact the objects of the place as `plan` decides, and return the new objects. The inputs stay until `gc`.

    `now_ms` is unix milliseconds. Every entry is kept for `history_ms`. `force` merges and thins out all objects, also where
    little is gained. Raises ArchiveDamaged if an input is not what was put, ArchiveError if the archive cannot be reached.
    """

    def read() -> list[Stored]:
        jobs = plan(live_objects(objects, place), now_ms=now_ms, history_ms=history_ms, force=force)
        stored = []
        for done, job in enumerate(jobs):
            if progress:
                progress(done, len(jobs), f"{place.prefix} {job.inputs[0].span.first}–{job.inputs[-1].span.last}")
            output = run(objects, place, job)
            stored += [output] if output else []
        if progress:
            progress(len(jobs), len(jobs), place.prefix)
        return stored

    return listed_again(read)


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


def run(objects: Objects, place: Place, job: Rewrite) -> Stored | None:
    """Make the output of one job, and return it when it is confirmed; None if it would equal its only input.

    The caller need not own the place, because the output holds no entry that its inputs did not hold. Raises ArchiveDamaged if
    an input is not what was put, ObjectMissing if it is gone.
    """
    rows = sorted_rows(_concat(read_rows(objects, info) for info in job.inputs))
    kept = thin_out(rows, job.horizon)
    if job.oldest:
        kept = without_tombstones(objects, kept, job.horizon, _other_objects(objects, place, job))
    earlier = max(info.span.horizon for info in job.inputs)
    span = Span(
        job.inputs[0].span.first,
        max(info.span.last for info in job.inputs),
        max(earlier, job.horizon) if len(kept) < len(rows) else earlier,
    )
    if span == job.inputs[0].span:
        return None
    return put_object(objects, place, span, kept, _seals(job))


def _other_objects(objects: Objects, place: Place, job: Rewrite) -> Others:
    """All objects that may hold older rows than the job's inputs: those of other nodes, and of earlier logs of the place."""
    others = others_of(objects, place)
    before = [info for info in live_objects(objects, place) if info.span.last < job.inputs[0].span.first]
    return others._replace(infos=[*others.infos, *before])


def _seals(job: Rewrite) -> Seals:
    """The output's part of the chain of seals: the crc before its first entry, and the crc of its last seal."""
    last = max(job.inputs, key=lambda info: info.span.last)
    return Seals(job.inputs[0].footer.log_id, job.inputs[0].footer.previous_crc, last.footer.seal_crcs[-1:])


def _concat(tables: Iterator[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(list(tables))


def thin_out(table: pa.Table, horizon: int) -> pa.Table:
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


def _superseded(objects: Objects, place: Place, by: ObjectInfo, live: Sequence[ObjectInfo]) -> list[str]:
    """The keys of the objects of the same log that `by` supersedes. An object whose footer is damaged is left to `verify`."""
    spans = list_spans(objects, place)
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


def gc(objects: Objects, place: Place, *, now_ms: int, grace_ms: int, progress: Progress | None = None) -> list[str]:
    """Remove superseded objects, and unfinished files of killed puts, and return their keys.

    An object is removed only if a live object supersedes it that was made at least `grace_ms` ago, by the backend's clock, and
    every byte of which was just read and checked. Objects of foreign logs stay. Raises ArchiveDamaged if a superseding object
    is not what was put; then no object that it supersedes is removed.
    """
    live = listed_again(lambda: live_objects(objects, place))
    old_enough = [info for info in live if info.modified_ms <= now_ms - grace_ms]
    superseded = [(info, keys) for info in old_enough if (keys := _superseded(objects, place, info, live))]
    removed: list[str] = []
    for done, (info, keys) in enumerate(superseded):
        if progress:
            progress(done, len(superseded), info.key)
        read_rows(objects, info)
        for key in keys:
            objects.delete(key)
            removed.append(key)
    return removed + objects.sweep(place.prefix, now_ms - grace_ms)
