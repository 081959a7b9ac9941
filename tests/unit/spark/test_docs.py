"""The page of the schema names every field of every record, and nothing of it is invented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvwal.spark import index
from kvwal.spark import records as rec

PAGE = (Path(__file__).resolve().parent.parent.parent.parent / "docs" / "spark-metadata.md").read_text()
KINDS = {
    "app": rec.Application,
    "env": rec.Environment,
    "executor": rec.Executor,
    "job": rec.Job,
    "stage": rec.Stage,
    "rdd": rec.Rdd,
    "sql": rec.Sql,
    "stream": rec.Stream,
    "batch": rec.Batch,
    "log": rec.EventLogPosition,
    "damage": rec.Damage,
    "failure": index.Failure,
}
PARTS = {
    "env": (rec.ClasspathFolder, rec.ResourceProfile),
    "stage": (rec.Slowest, rec.TaskFailure, rec.Accumulator, rec.Speculation, rec.Quantiles, rec.TaskQuantiles),
    "sql": (rec.Access, rec.Metric, rec.PlanEdge),
    "batch": (rec.BatchSource,),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_names_the_fields_of_each_kind(kind: str) -> None:
    record = KINDS[kind]
    sums = set(rec.Totals.__struct_fields__)
    told = re.search(rf"^\*\*{kind}\*\*: (.*?)(?=\n\n)", PAGE, re.MULTILINE | re.DOTALL)
    assert told is not None
    named = set(re.findall(r"`([a-z_0-9]+)`", told[1]))
    own = set(record.__struct_fields__) - (sums if issubclass(record, rec.Totals) else set())
    parts = {field for part in PARTS.get(kind, ()) for field in part.__struct_fields__}
    assert own | parts <= named
    assert record.__struct_config__.tag == kind


def test_the_page_names_the_sums() -> None:
    told = PAGE[PAGE.index("**Sums over tasks**") :].partition("\n\n")[0]
    assert set(rec.Totals.__struct_fields__) <= set(re.findall(r"`([a-z_]+)`", told))
