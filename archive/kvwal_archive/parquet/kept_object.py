"""What a reader that stays open knows of an object: its footer, which keys each row group can hold, and where it has none.

Objects are immutable. So what was read of one counts for as long as it is listed with the same size and time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from kvwal_archive.objects import Objects
from kvwal_archive.parquet.key_ranges import Identity, KeyRange, group_bounds
from kvwal_archive.parquet.metadata import check_unchanged, read_metadata_of
from kvwal_archive.parquet.rows import Footer, ObjectInfo

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Version = tuple[str, int, int]
"""The key, the size and the time of an object."""
_MOST_GAPS = 32
"""Gaps that are known of a row group. One more, and it alone is."""
_MOST_BYTES = 32 << 20
"""Bytes of a row group that may be decoded at once and kept: objects of earlier versions have larger ones."""
_GROUP_BYTES = 16 << 10
"""About the memory for what is known of a row group."""


class KeptObject:
    """An object whose footer was read and checked. Any thread may use it: two that note a gap at once may lose one of them."""

    def __init__(self, info: ObjectInfo, metadata: pq.FileMetaData) -> None:
        self.info = info
        self.metadata = metadata
        self.held_bytes = _GROUP_BYTES * metadata.num_row_groups
        self._gaps: dict[int, tuple[KeyRange, ...]] = {}
        """Of each row group, sorted. Each gap reaches from one key to the next one, so two of them are apart."""

    @cached_property
    def bounds(self) -> list[tuple[Identity, Identity]]:
        """The least and the greatest identity that each row group can hold."""
        return [group_bounds(self.metadata.row_group(group)) for group in range(self.metadata.num_row_groups)]

    def groups(self, ranges: Sequence[KeyRange]) -> dict[int, list[KeyRange]]:
        """The row groups that can hold rows of the ranges, each with those of the ranges that it can hold rows of."""
        found = {group: self._open_ranges(group, ranges) for group in range(self.metadata.num_row_groups)}
        return {group: wanted for group, wanted in found.items() if wanted}

    def _open_ranges(self, group: int, ranges: Sequence[KeyRange]) -> list[KeyRange]:
        least, greatest = self.bounds[group]
        gaps = self._gaps.get(group, ())
        return [one for one in ranges if one.overlaps(least, greatest) and not _is_within(one, gaps)]

    def may_be_kept(self, group: int) -> bool:
        """Whether a row group is small enough to be kept decoded, and can be checked without the rest of the object."""
        return self.info.footer.chunk_crcs is not msgspec.UNSET and self.bytes_of([group]) <= _MOST_BYTES

    def bytes_of(self, groups: Iterable[int]) -> int:
        """The bytes of some row groups, decompressed."""
        return sum(int(self.metadata.row_group(group).total_byte_size) for group in groups)

    def note_gap(self, group: int, gap: KeyRange) -> None:
        """Note that a row group has no identity of this range, which reaches from one identity of it to the next one."""
        known = self._gaps.get(group, ())
        self._gaps[group] = tuple(sorted({gap, *known})) if len(known) < _MOST_GAPS else (gap,)


def _is_within(one: KeyRange, gaps: Sequence[KeyRange]) -> bool:
    at = bisect_right(gaps, one.low, key=lambda gap: gap.low) - 1
    return at >= 0 and one.high <= gaps[at].high


def version(info: ObjectInfo) -> Version:
    """The version of an object."""
    return info.key, info.size, info.modified_ms


def kept_object(objects: Objects, info: ObjectInfo) -> KeptObject | None:
    """What is known of the object; None if nothing is kept of it."""
    kept = None if objects.decoded is None else objects.decoded.found(version(info))
    return kept if isinstance(kept, KeptObject) and (kept.info is info or kept.info == info) else None


def known_objects(objects: Objects, infos: Sequence[ObjectInfo]) -> Iterator[KeptObject]:
    """The objects, in order, with their footers. Those that are not kept are read at once.

    Raises ArchiveDamaged, ArchiveError, ObjectMissing.
    """

    def unchanged(at: int, footer: Footer) -> ObjectInfo:
        check_unchanged(footer, infos[at])
        return infos[at]

    kept = [kept_object(objects, info) for info in infos]
    return kept_or_read(objects, [version(info) for info in infos], kept, unchanged)


def kept_or_read(
    objects: Objects,
    versions: Sequence[Version],
    kept: Sequence[KeptObject | None],
    info_of: Callable[[int, Footer], ObjectInfo],
) -> Iterator[KeptObject]:
    """The objects, in order: those that are kept, and the others with their footers, which are read at once.

    `info_of` is given the number of an object and its footer. Raises as `known_objects`, and what `info_of` raises.
    """
    metadata = read_metadata_of(objects, [one[:2] for one, known in zip(versions, kept, strict=True) if known is None])
    for at, (one, known) in enumerate(zip(versions, kept, strict=True)):
        if known is None:
            footer, of_object = next(metadata)
            known = KeptObject(info_of(at, footer), of_object)
            if objects.decoded is not None:
                objects.decoded.put(one, known)
        yield known
