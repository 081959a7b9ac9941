"""Rows that did not fit: the driver says how many a mode has let pass, because nothing else tells of them."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types

import kvwal
from kvwal.spark.sink import writers
from kvwal.spark.sink.columns import write_columns
from kvwal.spark.sink.options import write_options
from kvwal.spark.sink.writers import BatchWriter

SCHEMA = types.StructType(
    [types.StructField("key", types.StringType()), types.StructField("value", types.StringType())]
)
ROWS = [("a", "1"), ("b", "{"), (None, "2"), ("c", "no JSON")]


@pytest.mark.parametrize(
    ("mode", "rows", "said"), [("drop", ROWS, [3]), ("null", ROWS[:2], [1]), ("fail", ROWS[:1], [])]
)
def test_rows_that_did_not_fit_are_counted_in_the_log(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: str,
    rows: list[tuple[str | None, str]],
    said: list[int],
) -> None:
    with kvwal.open(tmp_path / "root", archive=None):
        pass
    options = write_options({"store": str(tmp_path / "root"), "business": "jobs", "mode": mode})
    monkeypatch.setattr(writers, "_namer", lambda: "{}.rows".format)  # no task of Spark runs this
    writer = BatchWriter(options, write_columns(SCHEMA, ""))
    keys, values = (pa.array(column, pa.string()) for column in zip(*rows, strict=True))
    task = [pa.RecordBatch.from_arrays([keys, values], ["key", "value"])]
    with caplog.at_level(logging.WARNING, "kvwal.spark.sink"):
        writer.commit([writer.write(iter(task)), None])
    found = [record.__dict__["kvwal"] for record in caplog.records if "did not fit" in record.message]
    assert [(fields["business"], fields["rows"]) for fields in found] == [("jobs", count) for count in said]
