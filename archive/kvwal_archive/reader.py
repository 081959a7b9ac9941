"""The reader of archive objects: the live objects of a place, their coverage of the log, and their rows, checked before use.

Objects may overlap. Compaction may remove an object between a listing and a read: a reader that misses an object lists again.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from kvwal_archive.errors import ArchiveDamaged, ArchiveGap, BeforeHistory
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import (
    LOGICAL_BITS,
    EventsName,
    Place,
    Span,
    events_folder,
    parse_base_key,
    parse_events_key,
    parse_object_key,
    to_text,
)
from kvwal_archive.objects import Objects, open_copy
from kvwal_archive.parquet.kept_object import kept_or_read
from kvwal_archive.parquet.metadata import as_damage, check_unchanged, read_footer
from kvwal_archive.parquet.rows import (
    DAMAGED_HINT,
    Footer,
    ObjectInfo,
    schema,
)
from kvwal_archive.registry import Registration, owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

T = TypeVar("T")

LISTINGS = 5


class Coverage(NamedTuple):
    """The part of one log that the archive holds.

    `last` is the last sequence up to which no sequence is missing (0: the archive holds none). `spans` are those of the live
    objects, in order, and `gaps` the missing ranges between them. `max_timestamp` and `horizon` are the greatest of any live
    object (0 without objects). `seal_crc` is the crc of the seal after `last`.
    """

    last: int
    spans: list[Span]
    gaps: list[tuple[int, int]]
    max_timestamp: int
    horizon: int
    seal_crc: int


def live_objects(objects: Objects, place: Place, known: dict[str, ObjectInfo] | None = None) -> list[ObjectInfo]:
    """The live objects of `place`, in log order.

    An object is live if no other one supersedes it, and if its log is registered and counts in the object's range. A place
    without a registration has none. `known` are objects by key that were read earlier: those that are read now are added.
    Raises ArchiveDamaged, also for an object of a log that never was registered, and ArchiveError.
    """
    registration = _owner(objects, place)
    if registration is None:
        return []
    return listed_again(lambda: _live(objects, place, registration, {} if known is None else known))


def _owner(objects: Objects, place: Place) -> Registration | None:
    """The registration of the place. Raises ArchiveDamaged for objects without one: a log registers before its first put."""
    registration = owner(objects, place)
    if registration is None and list_spans(objects, place) and (registration := owner(objects, place)) is None:
        raise ArchiveDamaged(
            f"{objects.url}: {place.prefix} has objects, but no `_log` says which log they are of.",
            hint="Put `_log` back, or open the store whose log it is with this archive: it registers again.",
        )
    return registration


def listed_again(read: Callable[[], T]) -> T:
    """The result of `read`, which lists objects and then reads them. It is called again if an object was removed in between."""
    for _ in range(LISTINGS - 1):
        try:
            return read()
        except ObjectMissing:
            continue
    return read()


def _live(objects: Objects, place: Place, registration: Registration, known: dict[str, ObjectInfo]) -> list[ObjectInfo]:
    candidates = list_spans(objects, place)
    infos: dict[Span, ObjectInfo] = {}
    while True:
        live = unsuperseded(candidates)
        unread = [candidates[span] for span in live if candidates[span][0] not in known]
        known |= {info.key: info for info in read_infos(objects, unread)}
        infos |= {span: known[candidates[span][0]] for span in live}
        foreign = [span for span in live if not belongs(registration, infos[span].footer)]
        if not foreign:
            return [infos[span] for span in live]
        for span in foreign:
            _check_fenced(registration, infos[span])
            del candidates[span]


def _check_fenced(registration: Registration, foreign: ObjectInfo) -> None:
    """Raise ArchiveDamaged if a foreign object is of a log that never owned the place: only a fenced log may leave such objects.

    A registration that was replaced by that of another log would hide all objects of the place.
    """
    if registration.range_of(foreign.footer.log_id) is None:
        raise ArchiveDamaged(
            f"{foreign.key}: it is of the log {foreign.footer.log_id}, and the registration of its folder has no such log.",
            hint="Put the right `_log` back, or move the object out of the archive if that log is to count no more;"
            " `kvwal archive verify` lists all of them.",
        )


def list_spans(objects: Objects, place: Place) -> dict[Span, tuple[str, int, int]]:
    """Key, size and time of every object of `place`, live or not, by the span in its name."""
    by_span = {}
    for item in objects.list(f"{place.prefix}/"):
        parsed = parse_object_key(item.key)
        if parsed and parsed[0] == place:
            by_span[parsed[1]] = (item.key, item.size, item.modified_ms)
    return by_span


def list_events(objects: Objects, place: Place) -> dict[EventsName, tuple[str, int, int]]:
    """Key, size and time of every object of events of `place`, by its name, oldest events first."""
    listed = objects.list(events_folder(place))
    named = {name: (item.key, item.size, item.modified_ms) for item in listed if (name := parse_events_key(item.key))}
    return {name: named[name] for name in sorted(named)}


def event_objects(objects: Objects, place: Place) -> list[ObjectInfo]:
    """The objects of events of `place`, oldest events first. Raises ArchiveDamaged, ArchiveError, ObjectMissing.

    Several may have one event: after a kill, and until objects were merged.
    """
    return list(read_infos(objects, list(list_events(objects, place).values())))


def unsuperseded(spans: Iterable[Span]) -> list[Span]:
    """The spans that no other one supersedes, in log order."""
    live: list[Span] = []
    # Widest first at each start, then the later horizon first: so a span comes after each span that supersedes it.
    for span in sorted(set(spans), key=lambda s: (s.first, -s.last, -s.horizon)):
        if not (live and live[-1].supersedes(span)):
            live.append(span)
    return live


def belongs(registration: Registration, footer: Footer) -> bool:
    """Whether an object's log is registered for the place, and the object ends before the next log took over."""
    counted = registration.range_of(footer.log_id)
    if counted is None:
        return False
    first, last = counted
    return first <= footer.first and (last is None or footer.last <= last)


def read_info(objects: Objects, key: str, size: int, modified_ms: int) -> ObjectInfo:
    """The object with its footer, which must agree with its name. Raises ArchiveDamaged, ArchiveError, ObjectMissing.

    The name of a part of a base says the place only, and the commit of the base has the footer.
    """
    with objects.open(key) as file:
        return _info(key, read_footer(file, key), size, modified_ms)


def read_infos(objects: Objects, listed: Sequence[tuple[str, int, int]]) -> Iterator[ObjectInfo]:
    """`read_info` of many objects: key, size and time of each. The footers that are not kept are read at once."""
    kept = [None if objects.decoded is None else objects.decoded.found(one) for one in listed]
    found = kept_or_read(objects, listed, kept, lambda at, footer: _info(listed[at][0], footer, *listed[at][1:]))
    return (known.info for known in found)


def _info(key: str, footer: Footer, size: int, modified_ms: int) -> ObjectInfo:
    if (base := parse_base_key(key)) and base[1] and Place(*base[0][:3], base[1].node) == footer.place:
        return ObjectInfo(key, footer.span, footer, size, modified_ms)
    if (events := parse_events_key(key)) and events[:3] == (footer.place, footer.min_timestamp, footer.max_timestamp):
        return ObjectInfo(key, footer.span, footer, size, modified_ms)
    parsed = parse_object_key(key)
    if parsed is None or parsed != (footer.place, footer.span):
        raise ArchiveDamaged(
            f"{key}: its footer says it is {footer.place.prefix}, {footer.first}–{footer.last}, horizon {footer.horizon}.",
            hint="An object was renamed or copied over another; " + DAMAGED_HINT,
        )
    return ObjectInfo(key, parsed[1], footer, size, modified_ms)


def read_rows(objects: Objects, info: ObjectInfo) -> pa.Table:
    """All rows of an object, after a check of every byte. Raises ArchiveDamaged, ObjectMissing."""
    import pyarrow.parquet as pq

    file = io.BytesIO(objects.read(info.key))
    check_unchanged(read_footer(file, info.key, whole=True), info)
    with as_damage(info.key):
        return pq.read_table(file).cast(schema())


def checked(objects: Objects, info: ObjectInfo, *, in_memory: bool) -> BinaryIO:
    """A seekable file over an object, after a check of every byte. Raises as `read_rows`."""
    file: BinaryIO = io.BytesIO(objects.read(info.key)) if in_memory else objects.open(info.key)
    check_unchanged(read_footer(file, info.key, whole=True), info)
    file.seek(0)
    return file


def checked_file(objects: Objects, info: ObjectInfo, folder: Path) -> Path:
    """A local file with the object, after a check of every byte, for engines that check nothing. Raises as `read_rows`."""
    path = objects.fetch(info.key, folder)
    with open_copy(path) as file:
        check_unchanged(read_footer(file, info.key, whole=True), info)
    return path


def coverage(objects: Objects, place: Place, log_id: str) -> Coverage:
    """The part of the log `log_id`, and of the logs it continues, that the archive holds.

    It is empty for a log that is not registered. Raises as `live_objects`.
    """
    registration = _owner(objects, place)
    counted = registration.range_of(log_id) if registration else None
    if registration is None or counted is None:
        return Coverage(0, [], [], 0, 0, 0)
    end = counted[1]
    infos = [info for info in live_objects(objects, place) if end is None or info.span.last <= end]
    return covered(infos)


def covered(infos: Iterable[ObjectInfo]) -> Coverage:
    """The coverage by these live objects, which are in log order. Pure."""
    spans, gaps, reached, times, horizons, seals = [], [], 0, [0], [0], {}
    for info in infos:
        spans.append(info.span)
        seals[info.span.last] = info.footer.seal_crcs[-1] if info.footer.seal_crcs else 0
        if info.span.first > reached + 1:
            gaps.append((reached + 1, info.span.first - 1))
        reached = max(reached, info.span.last)
        times.append(info.footer.max_timestamp)
        horizons.append(info.span.horizon)
    last = gaps[0][0] - 1 if gaps else reached
    return Coverage(last, spans, gaps, max(times), max(horizons), seals.get(last, 0))


def without_gaps(
    place: Place, infos: list[ObjectInfo], *, up_to: int | None = None, at: int | None = None
) -> list[ObjectInfo]:
    """The objects that hold the log's entries up to the sequence `up_to`.

    Raises ArchiveGap, which names the missing ranges. With the timestamp `at`, raises BeforeHistory if compaction has removed
    entries later than `at`.
    """
    needed = [info for info in infos if up_to is None or info.span.first <= up_to]
    reached = covered(needed)
    if reached.gaps:
        ranges = ", ".join(f"{first}–{last}" for first, last in reached.gaps)
        raise ArchiveGap(
            f"{place.prefix}: sequences {ranges} are in no object of the archive.",
            hint="Put the missing objects back, or archive the log that still holds them; `kvwal archive verify` lists them.",
        )
    if at is not None and at < reached.horizon:
        raise BeforeHistory(
            f"{place.prefix}: before {to_text(reached.horizon)} only the latest entry of each key was kept, and"
            f" {to_text(at >> LOGICAL_BITS << LOGICAL_BITS)} was asked.",
            hint="Ask for a later time; the setting `history_seconds` says how long every entry is kept.",
        )
    return needed
