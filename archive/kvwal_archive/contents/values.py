"""Rows with the bytes of their large values, which stand in claim files: a row has a claim in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import google_crc32c

from kvwal_archive.contents.claims import is_claimed, parsed_claim, without_mark
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.faults import ObjectMissing

if TYPE_CHECKING:
    import pyarrow as pa

Read: TypeAlias = Callable[[bytes, bytes], bytes]
"""Reads the bytes of the value of a key, by the claim that its row has."""
_BATCH_BYTES = 32 << 20
"""About the bytes of large values that a batch of rows holds."""


def with_values(read: Read, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """These rows with the bytes of their values, in their order: several batches, if the values are large. Raises as `read`."""
    classes = rows.column("value_class").to_pylist()
    large = [at for at, name in enumerate(classes) if is_claimed(name)]
    if not large:
        yield rows
        return
    keys, claims = rows.column("key"), rows.column("value")
    begin = size = 0
    found: dict[int, bytes] = {}
    for at in large:
        claim = parsed_claim(f"the row of {keys[at].as_py()[:40]!r}", claims[at].as_py())
        if found and size + claim.length > _BATCH_BYTES:
            yield _replaced(rows.slice(begin, at - begin), begin, found)
            begin, size, found = at, 0, {}
        found[at] = read(keys[at].as_py(), claims[at].as_py())
        size += claim.length
    yield _replaced(rows.slice(begin), begin, found)


def archived_values(contents: ArchivedContents) -> Read:
    """Reads the values of a business from its archive.

    Raises ArchiveDamaged for a value whose bytes are missing or wrong, ArchiveError.
    """
    return partial(_bytes_of, contents)


def _replaced(rows: pa.RecordBatch, begin: int, read: dict[int, bytes]) -> pa.RecordBatch:
    """The rows with these values, by the place of the row, of which the first is at `begin`."""
    import pyarrow as pa

    values, classes = rows.column("value").to_pylist(), rows.column("value_class").to_pylist()
    for at, value in read.items():
        values[at - begin], classes[at - begin] = value, without_mark(classes[at - begin])
    columns = {"value": values, "value_class": classes}
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else rows.column(field.name)
        for field in rows.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def _bytes_of(contents: ArchivedContents, key: bytes, value: bytes) -> bytes:
    claim = parsed_claim(f"{contents.url}: the row of {key[:40]!r}", value)
    where = f"{contents.url}: the value of {key[:40]!r}, claim file {claim.file} from byte {claim.offset} on"
    try:
        data = contents.part(claim.file, claim.offset, claim.length) if claim.length else b""
    except ObjectMissing as error:
        raise ArchiveDamaged(f"{where}: the file is missing.", hint="`kvwal archive verify` lists what is.") from error
    if len(data) != claim.length or int(google_crc32c.value(data)) != claim.crc32c:
        raise ArchiveDamaged(
            f"{where}: its {claim.length:,} bytes are not those that were written.",
            hint="`kvwal archive verify` lists what is damaged.",
        )
    return data
