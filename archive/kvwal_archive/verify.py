"""Verification of the archive: every object is read, and every fault reported. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kvwal_archive.contents.check import check_contents
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import (
    Place,
    parse_base_key,
    parse_claim_file_key,
    parse_events_key,
    parse_lost_tail_key,
    parse_object_key,
    parse_registration_key,
)
from kvwal_archive.merge import BATCH_BYTES, BATCH_ROWS, READ_BUFFER_BYTES
from kvwal_archive.objects import Listed, Objects, scratch
from kvwal_archive.parquet.metadata import as_damage
from kvwal_archive.parquet.rows import COLUMNS, IDENTITY, ORDER, Footer, NewerFormat, ObjectInfo, same_as_before, schema
from kvwal_archive.reader import belongs, checked_file, covered, read_info, unsuperseded
from kvwal_archive.registry import Registration, owner

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, str], None]


class Notes(Protocol):
    """The objects or files that an earlier, interrupted scrub found sound, by name and a mark that no other object or file of the
    same name has."""

    def known(self, name: str, mark: str) -> list[Any] | None:
        """The record of a sound object or file; None if it has to be read."""
        ...

    def add(self, name: str, mark: str, record: list[Any]) -> None:
        """Record that an object or file was read whole and is sound."""
        ...


class ArchiveFault(NamedTuple):
    """One fault of the archive.

    `kind` is one of: damaged (the bytes are not what was put), newer (the format is unknown to this version), foreign (of a log
    that does not count at its place), unknown (no name of the archive), gap (a range in no object), chain (a seal that the next
    object does not follow), registration (`_log` is missing or cannot be read), base (a base without one of its parts), content
    (its bytes are missing or damaged). `key` is an object's key or a place.
    """

    kind: str
    key: str
    text: str


class Report(NamedTuple):
    """The result of `verify`. Without findings every object is as it was put."""

    objects_checked: int
    rows: int
    findings: list[ArchiveFault]


def verify(
    objects: Objects, place: Place | None = None, progress: Progress | None = None, notes: Notes | None = None
) -> Report:
    """Check every object of `place`, or of the whole archive. Raises ArchiveError only if the archive cannot be reached.

    Of each object every byte is checked, the footer against the name and the rows, and the order of the rows. Of each place
    gaps, the chain of seals, and objects of foreign logs are checked. `progress` is called with bytes. Of an object that
    `notes` know only the footer is read again; sound objects are added to `notes`.
    """
    listed = objects.list(f"{place.prefix}/" if place else "")
    checked = check_all(objects, listed, f"verifying {place.prefix if place else objects.url}", progress, notes)
    found = report(objects, listed, checked)
    faults = list(_content_faults(objects, [info for info, fault in checked if info and not fault], progress))
    return found._replace(findings=sorted([*found.findings, *faults], key=lambda finding: finding.key))


def _content_faults(objects: Objects, sound: Sequence[ObjectInfo], progress: Progress | None) -> Iterator[ArchiveFault]:
    """The faults of the contents that the sound objects of each log name, superseded ones left out."""
    by_place: dict[Place, list[ObjectInfo]] = {}
    for info in sound:
        if parse_object_key(info.key) is not None:
            by_place.setdefault(info.footer.place, []).append(info)
    for place, infos in by_place.items():
        live = set(unsuperseded(info.span for info in infos))
        for fault in check_contents(objects, place, [info for info in infos if info.span in live], progress):
            yield ArchiveFault("content", fault.key, fault.text)


def report(objects: Objects, listed: Sequence[Listed], checked: Iterable[Checked]) -> Report:
    """The report on all listed objects, each of which was checked; and on what their footers say together."""
    findings: list[ArchiveFault] = []
    by_place: dict[Place, list[ObjectInfo]] = {}
    rows = 0
    for item in listed:
        if registered := parse_registration_key(item.key):
            by_place.setdefault(registered[0], [])
    for info, finding in checked:
        findings += [finding] if finding else []
        if info and parse_object_key(info.key) is not None:
            by_place.setdefault(info.footer.place, []).append(info)
            rows += info.footer.rows
    for where, infos in by_place.items():
        findings += _check_place(objects, where, infos)
    objects_checked = sum(bool(parse_object_key(item.key) or parse_events_key(item.key)) for item in listed)
    return Report(objects_checked, rows, sorted(findings, key=lambda finding: finding.key))


Checked = tuple[ObjectInfo | None, ArchiveFault | None]
"""What was found of one object: its footer, if that could be read, and the first fault of the object, if it has one."""


def check_all(
    objects: Objects, listed: Sequence[Listed], what: str, progress: Progress | None, notes: Notes | None
) -> list[Checked]:
    """What was found of each of these objects. `progress` gets the bytes that were read, all bytes, and `what`."""
    checked: list[Checked] = []
    done, total = 0, sum(item.size for item in listed)
    with scratch() as folder:
        for item in listed:
            checked.append(check_object(objects, item, folder, notes))
            done += item.size
            if progress:
                progress(done, total, what)
    return checked


def check_object(objects: Objects, item: Listed, folder: Path, notes: Notes | None = None) -> Checked:
    """Read one object, or a part of a base, to its last byte. `folder` is for temporary files. Raises ArchiveError."""
    base = parse_base_key(item.key)
    if parse_registration_key(item.key) or parse_lost_tail_key(item.key) or (base and base[1] is None):
        return None, None
    if parse_claim_file_key(item.key):  # checked against the claims that name it, once these are known
        return None, None
    if not (parse_object_key(item.key) or base or parse_events_key(item.key)):
        return None, ArchiveFault("unknown", item.key, "This is no name of the archive, and nothing reads it.")
    mark = f"{item.size} {item.etag or item.modified_ms}"
    try:
        info = read_info(objects, item.key, item.size, item.modified_ms)
        if notes and notes.known(item.key, mark) is not None:
            return info, None
        fault = _read_through(objects, info, folder)
    except (ObjectMissing, ArchiveDamaged) as error:
        if isinstance(error, ObjectMissing) or not objects.list(item.key):
            return None, None  # gc removed it after the listing; the object that superseded it is checked instead
        return None, ArchiveFault("damaged", item.key, str(error))
    except NewerFormat as error:
        return None, ArchiveFault("newer", item.key, str(error))
    if notes and not fault:
        notes.add(item.key, mark, [info.footer.rows])
    return info, ArchiveFault("damaged", item.key, fault) if fault else None


def _read_through(objects: Objects, info: ObjectInfo, folder: Path) -> str:
    """Read an object from its first byte to its last, some rows at a time. Returns the first fault of its rows, or ""."""
    import pyarrow.parquet as pq

    path = checked_file(objects, info, folder)
    rows_at_once = max(1, min(BATCH_ROWS, BATCH_BYTES // info.row_bytes))
    check = _RowCheck()
    try:
        with as_damage(info.key), pq.ParquetFile(path, pre_buffer=False, buffer_size=READ_BUFFER_BYTES) as file:
            for number in range(file.metadata.num_row_groups):
                check.begin_group(number, file.metadata.row_group(number))
                for batch in file.iter_batches(rows_at_once, row_groups=[number]):
                    check.take(_table(batch))
                check.end_group()
    finally:
        if path.parent == folder:
            path.unlink(missing_ok=True)
    return check.fault or check.differs(info.footer)


class _RowCheck:
    """A check of one object's rows: their order, the footer's numbers, and the statistics by which readers skip row groups.

    `fault` is the first fault as a sentence, or "".
    """

    def __init__(self) -> None:
        self.fault = ""
        self._rows = self._identities = 0
        self._sequences: tuple[int, int] | None = None
        self._times: tuple[int, int] | None = None
        self._before: Any = None
        self._group: Any = None
        self._number = 0
        self._ranges: dict[str, tuple[Any, Any]] = {}

    def begin_group(self, number: int, group: Any) -> None:
        """Begin a row group; `group` is its metadata in the footer."""
        self._number, self._group, self._ranges = number, group, {}

    def take(self, table: pa.Table) -> None:
        """Check the next rows."""
        if not len(table):
            return
        before = table if self._before is None else _concat([self._before, table])
        if not before.equals(before.sort_by(list(ORDER))):
            self.fault = self.fault or "Its rows are not sorted by identity, newest first."
        known = 0 if self._before is None else 1
        self._identities += len(before) - known - int(same_as_before(before, IDENTITY).true_count)
        self._rows += len(table)
        self._before = table.slice(len(table) - 1)
        for name in COLUMNS:
            self._ranges[name] = _wider(self._ranges.get(name), table.column(name))
        self._sequences = _wider(self._sequences, table.column("sequence"))
        self._times = _wider(self._times, table.column("timestamp"))

    def end_group(self) -> None:
        """Compare the footer's statistics of the row group with its rows."""
        for column in (self._group.column(index) for index in range(self._group.num_columns)):
            claimed, name = column.statistics, column.path_in_schema
            if claimed and claimed.has_min_max and (claimed.min, claimed.max) != self._ranges.get(name):
                self.fault = (
                    self.fault or f"The statistics of {name} in row group {self._number} are not those of its rows."
                )

    def differs(self, footer: Footer) -> str:
        """The first number in the footer that does not fit the rows, as a sentence, or ""."""
        first, last = self._sequences or (0, 0)
        if not footer.first <= first <= last <= footer.last:
            return f"Its rows are of sequences {first}–{last}, outside the range in its name."
        if not footer.horizon and self._rows != footer.last - footer.first + 1:
            return (
                f"It has {self._rows} rows for a range of {footer.last - footer.first + 1} sequences, and no horizon."
            )
        if (self._times, self._identities) != ((footer.min_timestamp, footer.max_timestamp), footer.identities):
            return "The timestamps or the number of identities in its footer are not those of its rows."
        return ""


def _wider(known: tuple[Any, Any] | None, column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The range `known`, widened by the least and the greatest value of the column."""
    import pyarrow.compute as pc

    least, greatest = pc.min_max(column).as_py().values()
    return (min(known[0], least), max(known[1], greatest)) if known else (least, greatest)


def _table(batch: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches([batch]).cast(schema())


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables).combine_chunks()


def _check_place(objects: Objects, place: Place, infos: Sequence[ObjectInfo]) -> list[ArchiveFault]:
    try:
        registration = owner(objects, place)
    except (ArchiveDamaged, NewerFormat) as error:
        return [ArchiveFault("registration", place.prefix, str(error))]
    if registration is None:
        return [
            ArchiveFault(
                "registration", place.prefix, "It has objects, but no `_log` says which log they are of; none is read."
            )
        ]
    ours = {info.span: info for info in infos if belongs(registration, info.footer)}
    live = [ours[span] for span in unsuperseded(ours)]
    return [*_foreign(registration, infos), *_gaps(place, live), *_broken_seals(live)]


def _foreign(registration: Registration, infos: Sequence[ObjectInfo]) -> list[ArchiveFault]:
    text = "It is of the log {}, which does not count for this range here; nothing reads it."
    return [
        ArchiveFault("foreign", info.key, text.format(info.footer.log_id))
        for info in infos
        if not belongs(registration, info.footer)
    ]


def _gaps(place: Place, live: Sequence[ObjectInfo]) -> list[ArchiveFault]:
    return [
        ArchiveFault("gap", place.prefix, f"Sequences {first}–{last} are in no object.")
        for first, last in covered(live).gaps
    ]


def _broken_seals(live: Sequence[ObjectInfo]) -> list[ArchiveFault]:
    """Neighbouring objects of one log of which the later does not follow the seal of the earlier."""
    return [
        ArchiveFault(
            "chain",
            after.key,
            f"It follows the seal {after.footer.previous_crc:#010x}, and {before.key} does not end with it.",
        )
        for before, after in pairwise(live)
        if before.footer.log_id == after.footer.log_id
        and before.span.last + 1 == after.span.first
        and before.footer.seal_crcs[-1:] != [after.footer.previous_crc]
    ]
