"""Rows of the tables about Spark: what stands there when nothing was measured, and where a row leads."""

from __future__ import annotations

import pytest

from kvwal.console.sparkpages.application import access_row
from kvwal.console.sparkpages.lists import stage_row
from kvwal.console.sparkreads.app_records import BriefStage
from kvwal.spark.records import Access


@pytest.mark.parametrize(
    ("stage", "median"),
    [
        (BriefStage(tasks=2, failed=1, killed=1), None),
        (BriefStage(tasks=2, killed=2), None),
        (BriefStage(), None),
        (BriefStage(tasks=3, failed=1, killed=1), 0),
        (BriefStage(tasks=2, killed=1, task_median_ms=7, task_max_ms=7), 7),
    ],
)
def test_a_stage_has_times_if_a_task_of_it_succeeded(stage: BriefStage, median: int | None) -> None:
    values = stage_row("app", stage).values
    assert (values["task_median_ms"], values["task_max_ms"]) == (median, median)


def test_the_files_of_a_batch_lead_to_the_lineage_of_their_folder() -> None:
    access = Access("parquet", "file:/lake/flights/month=6/part-00000-17a54084.c000.snappy.parquet, ...")
    of_batch, alone = (access_row(access, writes=False, of_stream=of_stream) for of_stream in (True, False))
    assert of_batch.links == {"dataset": "/lineage?dataset=file%3A%2F%2F%2Flake%2Fflights"}
    assert alone.links["dataset"].endswith("parquet")
    assert of_batch.values["dataset"] == alone.values["dataset"] == access.where
