"""Archives of random keys and values, so that nothing is small or in order by chance."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kvwal_archive.layout import Place, Span
from kvwal_archive.objects import Objects
from kvwal_archive.registry import register
from kvwal_archive.writer import put_segment

if TYPE_CHECKING:
    import pyarrow as pa

KEYS = 1_000_000
_LOG, _SEED = "log-1", 1


def fill(objects: Objects, place: Place, count: int, rows: int) -> int:
    """Archive so many objects of so many rows of a log. Returns the bytes of all keys and values."""
    chance, total = random.Random(_SEED), 0
    register(objects, place, _LOG)
    for number in range(count):
        span = Span(number * rows + 1, (number + 1) * rows)
        table = _rows(chance, span)
        put_segment(objects, place, span, table, log_id=_LOG, previous_crc=number, seal_crcs=[number + 1])
        total += table.column("key").nbytes + table.column("value").nbytes
    return total


def key(number: int) -> str:
    """The key with this number."""
    return f"job-{number:09}"


def first_key() -> str:
    """The key of the first row."""
    return key(random.Random(_SEED).randrange(KEYS))


def _rows(chance: random.Random, span: Span) -> pa.Table:
    import pyarrow as pa

    from kvwal_archive.parquet.rows import schema

    sequences = range(span.first, span.last + 1)
    columns = {
        "key": [key(chance.randrange(KEYS)).encode() for _ in sequences],
        "key_class": ["str"] * len(sequences),
        "value": [b'"%s"' % chance.randbytes(50).hex().encode() for _ in sequences],
        "value_class": ["json"] * len(sequences),
        "deleted": [False] * len(sequences),
        "timestamp": [(1_700_000_000_000 + sequence) << 16 for sequence in sequences],
        "expires": [0] * len(sequences),
        "sequence": list(sequences),
    }
    return pa.table(columns, schema=schema())
