"""Reads everything the archive holds and says what is not as it should be. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from archive.errors import ArchiveDamaged
from archive.faults import ObjectMissing
from archive.layout import Place, parse_object_key, parse_registration_key
from archive.merge import BATCH_BYTES, BATCH_ROWS, READ_BUFFER_BYTES
from archive.objects import Listed, Objects, scratch
from archive.parquet.rows import COLUMNS, IDENTITY, ORDER, Footer, NewerFormat, same_as_before, schema
from archive.reader import ObjectInfo, as_damage, belongs, checked_file, covered, read_info, unsuperseded
from archive.registry import Registration, owner

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, str], None]


class Notes(Protocol):
    """What an earlier, interrupted run found sound, by an object's key and a mark that only this object has."""

    def known(self, name: str, mark: str) -> list[Any] | None:
        """What was noted of it; None if it has to be read."""
        ...

    def add(self, name: str, mark: str, record: list[Any]) -> None:
        """It was read whole, and is sound."""
        ...


class Finding(NamedTuple):
    """One thing that is not as it should be.

    `kind` is one of: damaged (its bytes are not what was put), newer (its format is unknown here), foreign (of a log
    that does not count at its place), unknown (no name of the archive), gap (a range in no object), chain (a seal
    that its neighbour does not follow), registration (`_log` is missing or cannot be read). `key` is an object's key
    or a place.
    """

    kind: str
    key: str
    text: str


class Report(NamedTuple):
    """What `verify` read, and what it found; without findings everything is as it was put."""

    objects_checked: int
    rows: int
    findings: list[Finding]


def verify(
    objects: Objects, place: Place | None = None, progress: Progress | None = None, notes: Notes | None = None
) -> Report:
    """Checks every object of `place`, or of the whole archive: every byte, the footer against the name and the rows,
    the order of the rows; then for each place gaps, the chain of seals, and objects of foreign logs. Raises
    ArchiveError only if the archive cannot be reached.

    `progress` is called with bytes. Of an object that `notes` know only the footer is read again; those that are sound
    are added to them.
    """
    listed = objects.list(f"{place.prefix}/" if place else "")
    findings: list[Finding] = []
    found: dict[Place, list[ObjectInfo]] = {}
    rows = done = 0
    total = sum(item.size for item in listed)
    with scratch() as folder:
        for item in listed:
            info, finding = _check(objects, item, folder, notes)
            findings += [finding] if finding else []
            if registered := parse_registration_key(item.key):
                found.setdefault(registered[0], [])
            if info:
                found.setdefault(info.footer.place, []).append(info)
                rows += info.footer.rows
            done += item.size
            if progress:
                progress(done, total, f"verifying {place.prefix if place else objects.url}")
    for where, infos in found.items():
        findings += _check_place(objects, where, infos)
    checked = sum(parse_object_key(item.key) is not None for item in listed)
    return Report(checked, rows, sorted(findings, key=lambda finding: finding.key))


def _check(
    objects: Objects, item: Listed, folder: Path, notes: Notes | None
) -> tuple[ObjectInfo | None, Finding | None]:
    if parse_registration_key(item.key):
        return None, None
    if parse_object_key(item.key) is None:
        return None, Finding("unknown", item.key, "This is no name of the archive, and nothing reads it.")
    mark = f"{item.size} {item.etag or item.modified_ms}"
    try:
        info = read_info(objects, item.key, item.size, item.modified_ms)
        if notes and notes.known(item.key, mark) is not None:
            return info, None
        wrong = _read_through(objects, info, folder)
    except (ObjectMissing, ArchiveDamaged) as error:
        if isinstance(error, ObjectMissing) or not objects.list(item.key):
            return None, None  # a gc removed it after the listing; what superseded it is checked in its stead
        return None, Finding("damaged", item.key, str(error))
    except NewerFormat as error:
        return None, Finding("newer", item.key, str(error))
    if notes and not wrong:
        notes.add(item.key, mark, [info.footer.rows])
    return info, Finding("damaged", item.key, wrong) if wrong else None


def _read_through(objects: Objects, info: ObjectInfo, folder: Path) -> str:
    """Read an object from its first byte to its last, some rows at a time. What is wrong with its rows, or ""."""
    import pyarrow.parquet as pq

    path = checked_file(objects, info, folder)
    rows_at_once = max(1, min(BATCH_ROWS, BATCH_BYTES // (info.footer.data_bytes // info.footer.rows + 1)))
    reading = _Reading()
    try:
        with as_damage(info.key), pq.ParquetFile(path, pre_buffer=False, buffer_size=READ_BUFFER_BYTES) as file:
            for number in range(file.metadata.num_row_groups):
                reading.begin_group(number, file.metadata.row_group(number))
                for batch in file.iter_batches(rows_at_once, row_groups=[number]):
                    reading.take(_table(batch))
                reading.end_group()
    finally:
        if path.parent == folder:
            path.unlink(missing_ok=True)
    return reading.wrong or reading.differs(info.footer)


class _Reading:
    """The rows of one object as they go by: their order, what the footer promises of them, and their statistics, by which
    readers skip row groups. `wrong` is the first thing that is not so, as a sentence.
    """

    def __init__(self) -> None:
        self.wrong = ""
        self._rows = self._identities = 0
        self._sequences: tuple[int, int] | None = None
        self._times: tuple[int, int] | None = None
        self._before: Any = None
        self._group: Any = None
        self._number = 0
        self._found: dict[str, tuple[Any, Any]] = {}

    def begin_group(self, number: int, group: Any) -> None:
        """The rows of the next row group follow; `group` is what the footer says of it."""
        self._number, self._group, self._found = number, group, {}

    def take(self, table: pa.Table) -> None:
        """The next rows."""
        if not len(table):
            return
        before = table if self._before is None else _concat([self._before, table])
        if not before.equals(before.sort_by(list(ORDER))):
            self.wrong = self.wrong or "Its rows are not sorted by identity, newest first."
        known = 0 if self._before is None else 1
        self._identities += len(before) - known - int(same_as_before(before, IDENTITY).true_count)
        self._rows += len(table)
        self._before = table.slice(len(table) - 1)
        for name in COLUMNS:
            self._found[name] = _wider(self._found.get(name), table.column(name))
        self._sequences = _wider(self._sequences, table.column("sequence"))
        self._times = _wider(self._times, table.column("timestamp"))

    def end_group(self) -> None:
        """Compare what the footer says of the row group's columns with what went by."""
        for column in (self._group.column(index) for index in range(self._group.num_columns)):
            claimed, name = column.statistics, column.path_in_schema
            if claimed and claimed.has_min_max and (claimed.min, claimed.max) != self._found.get(name):
                self.wrong = (
                    self.wrong or f"The statistics of {name} in row group {self._number} are not those of its rows."
                )

    def differs(self, footer: Footer) -> str:
        """What of the footer's promises about its rows is not so, or ""."""
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
    """The least and the greatest value so far."""
    import pyarrow.compute as pc

    found = pc.min_max(column).as_py()
    return (min(known[0], found["min"]), max(known[1], found["max"])) if known else (found["min"], found["max"])


def _table(batch: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches([batch]).cast(schema())


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables).combine_chunks()


def _check_place(objects: Objects, place: Place, infos: Sequence[ObjectInfo]) -> list[Finding]:
    try:
        registration = owner(objects, place)
    except (ArchiveDamaged, NewerFormat) as error:
        return [Finding("registration", place.prefix, str(error))]
    if registration is None:
        return [
            Finding(
                "registration", place.prefix, "It has objects, but no `_log` says which log they are of; none is read."
            )
        ]
    ours = {info.span: info for info in infos if belongs(registration, info.footer)}
    live = [ours[span] for span in unsuperseded(ours)]
    return [*_foreign(registration, infos), *_gaps(place, live), *_broken_seals(live)]


def _foreign(registration: Registration, infos: Sequence[ObjectInfo]) -> list[Finding]:
    text = "It is of the log {}, which does not count for this range here; nothing reads it."
    return [
        Finding("foreign", info.key, text.format(info.footer.log_id))
        for info in infos
        if not belongs(registration, info.footer)
    ]


def _gaps(place: Place, live: Sequence[ObjectInfo]) -> list[Finding]:
    return [
        Finding("gap", place.prefix, f"Sequences {first}–{last} are in no object.")
        for first, last in covered(live).gaps
    ]


def _broken_seals(live: Sequence[ObjectInfo]) -> list[Finding]:
    """Neighbours of one log of which the later does not say that it follows the earlier one's seal."""
    return [
        Finding(
            "chain",
            after.key,
            f"It follows the seal {after.footer.previous_crc:#010x}, and {before.key} does not end with it.",
        )
        for before, after in pairwise(live)
        if before.footer.log_id == after.footer.log_id
        and before.span.last + 1 == after.span.first
        and before.footer.seal_crcs[-1:] != [after.footer.previous_crc]
    ]
