"""The event logs that Spark's own tests read, and the answers that they expect of the History Server.

deploy/fetch_event_logs.py fetches the jars that have both.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.repository.source import ROOT

TABLE = ROOT / "deploy" / "event-log-jars.txt"
JARS = ROOT / ".cache" / "jars" / "event-logs"
LOGS, BROKEN, EXPECTED = "spark-events", "spark-events-broken", "HistoryServerExpectations"
"""The folders within a jar. A folder among the broken logs has two attempts of one application, of which one has no end."""

_OF_2015, _TWICE, _SHUFFLE = "local-1422981780767", "local-1426533911241", "local-1430917381534"
_PEAKS, _PARTITIONS = "app-20200706201101-0003", "local-1642039451826"
_EXCLUDED, _INCLUDED = "app-20161116163331-0000", "app-20161115172038-0000"
_EXCLUDED_FOR_STAGE, _NODE_EXCLUDED = "app-20180109111548-0000", "application_1516285256255_0012"
QUESTIONS = {
    "application_list_json": "applications",
    "completed_app_list_json": "applications?status=completed",
    "running_app_list_json": "applications?status=running",
    "minDate_app_list_json": "applications?minDate=2015-02-10",
    "maxDate_app_list_json": "applications?maxDate=2015-02-10",
    "maxDate2_app_list_json": "applications?maxDate=2015-02-03T16:42:40.000GMT",
    "minEndDate_app_list_json": "applications?minEndDate=2015-05-06T13:03:00.950GMT",
    "maxEndDate_app_list_json": "applications?maxEndDate=2015-05-06T13:03:00.950GMT",
    "minEndDate_and_maxEndDate_app_list_json": "applications?minEndDate=2015-03-16&maxEndDate=2015-05-06T13:03:00.950GMT",
    "minDate_and_maxEndDate_app_list_json": "applications?minDate=2015-03-16&maxEndDate=2015-05-06T13:03:00.950GMT",
    "limit_app_list_json": "applications?limit=3",
    "one_app_json": f"{_OF_2015}",
    "one_app_multi_attempt_json": f"{_TWICE}",
    "job_list_json": f"{_OF_2015}/jobs",
    "job_list_from_multi_attempt_app_json_1_": f"{_TWICE}/1/jobs",
    "job_list_from_multi_attempt_app_json_2_": f"{_TWICE}/2/jobs",
    "one_job_json": f"{_OF_2015}/jobs/0",
    "succeeded_job_list_json": f"{_OF_2015}/jobs?status=succeeded",
    "succeeded_failed_job_list_json": f"{_OF_2015}/jobs?status=succeeded&status=failed",
    "executor_list_json": f"{_OF_2015}/executors",
    "executor_list_with_executor_metrics_json": "application_1553914137147_0018/executors",
    "stage_list_json": f"{_OF_2015}/stages",
    "complete_stage_list_json": f"{_OF_2015}/stages?status=complete",
    "failed_stage_list_json": f"{_OF_2015}/stages?status=failed",
    "one_stage_json": f"{_OF_2015}/stages/1",
    "one_stage_json_with_details": f"{_OF_2015}/stages/1?details=true",
    "one_stage_attempt_json": f"{_OF_2015}/stages/1/0",
    "one_stage_attempt_json_details_with_failed_task": f"{_OF_2015}/stages/1/0?details=true&taskStatus=failed",
    "one_stage_json_with_partitionId": f"{_PARTITIONS}/stages/2",
    "stage_task_summary_w_shuffle_write": f"{_SHUFFLE}/stages/0/0/taskSummary",
    "stage_task_summary_w_shuffle_read": f"{_SHUFFLE}/stages/1/0/taskSummary",
    "stage_task_summary_w__custom_quantiles": f"{_SHUFFLE}/stages/0/0/taskSummary?quantiles=0.01,0.5,0.99",
    "stage_task_list": f"{_SHUFFLE}/stages/0/0/taskList",
    "stage_task_list_w__offset___length": f"{_SHUFFLE}/stages/0/0/taskList?offset=10&length=50",
    "stage_task_list_w__sortBy": f"{_SHUFFLE}/stages/0/0/taskList?sortBy=DECREASING_RUNTIME",
    "stage_task_list_w__sortBy_short_names__runtime": f"{_SHUFFLE}/stages/0/0/taskList?sortBy=runtime",
    "stage_task_list_w__sortBy_short_names___runtime": f"{_SHUFFLE}/stages/0/0/taskList?sortBy=-runtime",
    "stage_task_list_w__status": f"{_INCLUDED}/stages/0/0/taskList?status=failed",
    "stage_task_list_w__status___offset___length": f"{_SHUFFLE}/stages/0/0/taskList?status=success&offset=1&length=2",
    "stage_task_list_w__status___sortBy_short_names__runtime": f"{_SHUFFLE}/stages/0/0/taskList?status=success&sortBy=runtime",
    "stage_task_list_from_multi_attempt_app_json_1_": f"{_TWICE}/1/stages/0/0/taskList",
    "stage_task_list_from_multi_attempt_app_json_2_": f"{_TWICE}/2/stages/0/0/taskList",
    "stage_task_list_with_partitionId": f"{_PARTITIONS}/stages/0/0/taskList",
    "stage_list_with_accumulable_json": f"{_TWICE}/1/stages",
    "stage_with_accumulable_json": f"{_TWICE}/1/stages/0/0",
    "stage_list_with_peak_metrics": f"{_PEAKS}/stages",
    "stage_with_peak_metrics": f"{_PEAKS}/stages/2/0",
    "stage_with_summaries": f"{_PEAKS}/stages/2/0?withSummaries=true",
    "stage_with_speculation_summary": "application_1628109047826_1317105/stages/0/0",
    "rdd_list_storage_json": f"{_OF_2015}/storage/rdd",
    "one_rdd_storage_json": f"{_OF_2015}/storage/rdd/0",
    "executor_node_excludeOnFailure": f"{_EXCLUDED}/executors",
    "executor_node_blacklisting": f"{_EXCLUDED}/executors",
    "executor_node_excludeOnFailure_unexcluding": f"{_INCLUDED}/executors",
    "executor_node_blacklisting_unblacklisting": f"{_INCLUDED}/executors",
    "executor_memory_usage": f"{_EXCLUDED}/executors",
    "executor_resource_information": "application_1555004656427_0144/executors",
    "multiple_resource_profiles": "application_1578436911597_0052/environment",
    "app_environment": f"{_EXCLUDED}/environment",
    "miscellaneous_process": "application_1555004656427_0144/allmiscellaneousprocess",
    "excludeOnFailure_for_stage": f"{_EXCLUDED_FOR_STAGE}/stages/0/0",
    "blacklisting_for_stage": f"{_EXCLUDED_FOR_STAGE}/stages/0/0",
    "excludeOnFailure_node_for_stage": f"{_NODE_EXCLUDED}/stages/0/0",
    "blacklisting_node_for_stage": f"{_NODE_EXCLUDED}/stages/0/0",
}
"""The question of each file of an answer, as Spark's `HistoryServerSuite` has it: of all applications, or from an id on."""


def versions() -> list[str]:
    """The versions of Spark whose jars are pinned."""
    return [line.split()[2] for line in TABLE.read_text().splitlines() if not line.startswith("#")]


def unpack(version: str, folder: Path) -> Path:
    """A folder with the event logs and the answers of a version's jar. Without the jar the test is skipped."""
    jars = list(JARS.glob(f"spark-core_*-{version}-tests.jar"))
    if not jars:
        pytest.skip(
            f"the event logs of Spark {version} are not here: deploy/fetch_event_logs.py fetches them where there is a network"
        )
    with zipfile.ZipFile(jars[0]) as archive:
        archive.extractall(
            folder, [name for name in archive.namelist() if name.startswith((f"{LOGS}/", f"{BROKEN}/", f"{EXPECTED}/"))]
        )
    return folder


def answers(folder: Path) -> Iterator[tuple[str, Any]]:
    """Each question of an unpacked jar, with the answer that Spark expects."""
    for path in sorted((folder / EXPECTED).iterdir()):
        question = QUESTIONS[path.name.removesuffix("_expectation.json")]
        of_all = question.startswith("applications")
        yield question if of_all else f"applications/{question}", json.loads(path.read_text())
