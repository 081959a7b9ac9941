"""The row groups that can hold what is sought, by the bounds in the footer and by the Bloom filters. No rows are read for it.

Of many objects the footers, and then the filters, are read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kvwal_archive.objects import Objects, Range
from kvwal_archive.parquet.chunks import DIGITS
from kvwal_archive.parquet.kept_object import known_objects
from kvwal_archive.parquet.key_filter import filter_place, may_hold_any
from kvwal_archive.parquet.metadata import AT_ONCE, damaged
from kvwal_archive.parquet.rows import ObjectInfo

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Sought = Callable[[Any], Sequence[bytes] | None]
"""The keys that are sought in a row group, by its metadata: some or none, or (None) any."""


class Groups(NamedTuple):
    """Row groups of an object by their numbers, each with the keys that are sought in it; None: any."""

    info: ObjectInfo
    metadata: pq.FileMetaData
    keys: Mapping[int, Sequence[bytes] | None]

    def filters(self) -> list[Range]:
        """The filters that say more: of groups in which only single keys are sought. Earlier versions wrote none."""
        if self.info.footer.filter_crcs is msgspec.UNSET:
            return []
        filtered = (group for group, keys in self.keys.items() if keys is not None)
        return [(self.info.key, *filter_place(self.metadata, group)) for group in filtered]

    def held(self, filters: Iterator[bytes]) -> list[int]:
        """The groups that can hold what is sought. `filters` gives the bytes of each of `self.filters()`, in order.

        Raises ArchiveDamaged if they are not as they were written.
        """
        crcs = self.info.footer.filter_crcs
        return [
            group
            for group, keys in self.keys.items()
            if keys is None or crcs is msgspec.UNSET or may_hold_any(self._checked(group, next(filters), crcs), keys)
        ]

    def _checked(self, group: int, data: bytes, crcs: str) -> bytes:
        import google_crc32c

        if f"{google_crc32c.value(data):08x}" != crcs[DIGITS * group : DIGITS * (group + 1)]:
            raise damaged(self.info.key, f"the filter of the keys of row group {group} does not match its checksum")
        return data


def candidates(info: ObjectInfo, metadata: pq.FileMetaData, sought: Sought) -> Groups:
    """The row groups of an object whose bounds include something that is sought."""
    keys = {group: sought(metadata.row_group(group)) for group in range(metadata.num_row_groups)}
    return Groups(info, metadata, {group: wanted for group, wanted in keys.items() if wanted is None or wanted})


def find_groups(
    objects: Objects, infos: Sequence[ObjectInfo], sought: Sought
) -> Iterator[tuple[ObjectInfo, pq.FileMetaData, list[int]]]:
    """Each object, in order, with its metadata and the numbers of its row groups that can hold what is sought.

    Raises ArchiveDamaged, ArchiveError, ObjectMissing.
    """
    for begin in range(0, len(infos), AT_ONCE):
        some = infos[begin : begin + AT_ONCE]
        found = [candidates(known.info, known.metadata, sought) for known in known_objects(objects, some)]
        filters = iter(objects.read_ranges([place for groups in found for place in groups.filters()]))
        for groups in found:
            yield groups.info, groups.metadata, groups.held(filters)
