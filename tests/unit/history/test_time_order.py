"""Rows of the archive in the order of their timestamps: the same as one sort in memory, however many runs they went through."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvwal.history.reads import sort_by_time
from kvwal.history.reads.sort_by_time import TimeOrder
from kvwal.ports.disk import OS_DISK

Rows = list[tuple[int, bytes]]
ROWS = st.lists(st.tuples(st.integers(0, 50), st.binary(max_size=200)), max_size=12)


def batch_of(rows: Rows) -> pa.RecordBatch:
    """The rows as the archive gives them."""
    times, values = zip(*rows, strict=True) if rows else ((), ())
    return pa.RecordBatch.from_arrays(
        [pa.array(values, pa.binary()), pa.array(times, pa.int64())], ["value", "timestamp"]
    )


@pytest.mark.parametrize("read_bytes", [1, 1 << 20], ids=["a piece at a time", "many pieces at a time"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(ROWS, max_size=12), run_bytes=st.integers(1, 2_000), piece_bytes=st.integers(1, 500))
def test_any_rows_come_sorted(
    tmp_path: Path, parts: list[Rows], run_bytes: int, piece_bytes: int, read_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as small:
        for name, size in (("RUN_BYTES", run_bytes), ("_PIECE_BYTES", piece_bytes), ("READ_BYTES", read_bytes)):
            small.setattr(sort_by_time, name, size)
        rows = TimeOrder(OS_DISK, tmp_path)
        for part in parts:
            rows.add(batch_of(part))
        found = [(row["timestamp"], row["value"]) for batch in rows.in_order() for row in batch.to_pylist()]
    wanted = [row for part in parts for row in part]
    assert rows.count == len(wanted)
    assert [time for time, _ in found] == sorted(time for time, _ in wanted)
    assert sorted(found) == sorted(wanted)
    assert not list(tmp_path.iterdir()), "the temporary files are gone"
