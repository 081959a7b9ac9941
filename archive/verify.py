"""Reads everything the archive holds and says what is not as it should be. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from archive.errors import ArchiveDamaged
from archive.faults import ObjectMissing
from archive.layout import Place, parse_object_key, parse_registration_key
from archive.objects import Listed, Objects
from archive.reader import ObjectInfo, belongs, covered, read_info, read_whole, rows_of, unsuperseded
from archive.registry import Registration, owner
from archive.rows import IDENTITY, ORDER, Footer, NewerFormat, same_as_before

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, str], None]


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


def verify(objects: Objects, place: Place | None = None, progress: Progress | None = None) -> Report:
    """Checks every object of `place`, or of the whole archive: every byte, the footer against the name and the rows,
    the order of the rows; then for each place gaps, the chain of seals, and objects of foreign logs. Raises
    ArchiveError only if the archive cannot be reached.
    """
    listed = objects.list(f"{place.prefix}/" if place else "")
    findings: list[Finding] = []
    found: dict[Place, list[ObjectInfo]] = {}
    rows = 0
    for done, item in enumerate(listed):
        if progress:
            progress(done, len(listed), item.key)
        info, finding = _check(objects, item)
        findings += [finding] if finding else []
        if info:
            found.setdefault(info.footer.place, []).append(info)
            rows += info.footer.rows
    for where, infos in found.items():
        findings += _check_place(objects, where, infos)
    checked = sum(parse_object_key(item.key) is not None for item in listed)
    return Report(checked, rows, sorted(findings, key=lambda finding: finding.key))


def _check(objects: Objects, item: Listed) -> tuple[ObjectInfo | None, Finding | None]:
    if parse_registration_key(item.key):
        return None, None
    if parse_object_key(item.key) is None:
        return None, Finding("unknown", item.key, "This is no name of the archive, and nothing reads it.")
    try:
        info = read_info(objects, item.key, item.size, item.modified_ms)
        file = read_whole(objects, info)
        table = rows_of(file, info.key)
        wrong = check_rows(table, info.footer) or check_statistics(file, table)
    except ObjectMissing:
        return None, None  # a gc removed it after the listing; what superseded it is checked in its stead
    except ArchiveDamaged as error:
        return None, Finding("damaged", item.key, str(error))
    except NewerFormat as error:
        return None, Finding("newer", item.key, str(error))
    return info, Finding("damaged", item.key, wrong) if wrong else None


def check_rows(table: pa.Table, footer: Footer) -> str:
    """What of the footer's promises about its rows is not so, as a sentence, or "". Pure."""
    import pyarrow.compute as pc

    if not table.equals(table.sort_by(list(ORDER))):
        return "Its rows are not sorted by identity, newest first."
    sequences = pc.min_max(table.column("sequence")).as_py()
    times = pc.min_max(table.column("timestamp")).as_py()
    identities = len(table) - same_as_before(table, IDENTITY).true_count
    if not footer.first <= sequences["min"] <= sequences["max"] <= footer.last:
        return f"Its rows are of sequences {sequences['min']}–{sequences['max']}, outside the range in its name."
    if not footer.horizon and len(table) != footer.last - footer.first + 1:
        return f"It has {len(table)} rows for a range of {footer.last - footer.first + 1} sequences, and no horizon."
    if (times["min"], times["max"], identities) != (footer.min_timestamp, footer.max_timestamp, footer.identities):
        return "The timestamps or the number of identities in its footer are not those of its rows."
    return ""


def check_statistics(file: BinaryIO, table: pa.Table) -> str:
    """Which column's statistics are not those of its rows, as a sentence, or "". Readers skip row groups by them."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(file)
    start = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows = table.slice(start, group.num_rows)
        start += group.num_rows
        for column in (group.column(index) for index in range(group.num_columns)):
            claimed = column.statistics
            found = pc.min_max(rows.column(column.path_in_schema)).as_py()
            if claimed and claimed.has_min_max and (claimed.min, claimed.max) != (found["min"], found["max"]):
                return f"The statistics of {column.path_in_schema} in row group {number} are not those of its rows."
    return ""


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
