"""Executors: their cores and memory, and the core time of the application, however the events come."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from kvwal.spark import records as rec
from kvwal.spark.events import application as events
from kvwal.spark.events.tasks import TaskEnd, TaskEndReason, TaskInfo
from kvwal.spark.projection.projection import Projection
from kvwal.spark.record_keys import executor_key, stage_key

MIB = 1 << 20
PROFILE = events.ResourceProfileAdded(1, {"memory": events.ResourceRequest(512), "cores": events.ResourceRequest(2)})
START = events.ApplicationStart(app_name="a", timestamp=1_000, app_id="app")
END = events.ApplicationEnd(timestamp=9_000)
APP = "app/app"


def added(executor: str, moment: int, cores: int = 2, profile: int = 0) -> events.ExecutorAdded:
    return events.ExecutorAdded(moment, executor, events.ExecutorInfo(f"host-{executor}", cores, profile))


def memory(executor: str, moment: int, size: int = 300) -> events.BlockManagerAdded:
    return events.BlockManagerAdded(events.BlockManagerId(executor, "block-host"), moment, size * MIB)


def gone(executor: str, moment: int) -> events.ExecutorRemoved:
    return events.ExecutorRemoved(moment, executor, "idle")


def ended(index: int, executor: str, reason: str) -> TaskEnd:
    info = TaskInfo(task_id=index, index=index, finish_time=5_000, executor_id=executor)
    return TaskEnd(stage_id=0, attempt=0, reason=TaskEndReason(reason), task_info=info)


def recorded(*told: Any, times: int = 1) -> dict[str, Any]:
    """The records after these events, stored after each of them and read again by a reader that goes on."""
    stored: dict[str, Any] = {}
    for _ in range(times):
        for event in told:
            projection = Projection("app", stored.get)
            projection.apply(event, 1)
            stored |= projection.take()
    return {key: rec.from_value(value) for key, value in stored.items()}


@pytest.mark.parametrize("times", [1, 2])
def test_the_core_time_is_cores_times_the_time_that_each_executor_was_there(times: int) -> None:
    found = recorded(START, added("1", 2_000), added("2", 3_000, cores=4), gone("1", 5_000), END, times=times)
    assert found[APP].core_ms == 2 * (5_000 - 2_000) + 4 * (9_000 - 3_000)
    assert found[APP].cores == 4
    assert (found["app/executor/000001"].removed, found["app/executor/000002"].removed) == (5_000, 0)


def test_the_order_of_two_executors_changes_no_core_time() -> None:
    middle = [added("1", 2_000), added("2", 3_000, cores=1), gone("3", 4_000)]
    times = {recorded(START, *order, END)[APP].core_ms for order in permutations(middle)}
    assert times == {2 * 7_000 + 6_000}


def test_a_running_application_counts_up_to_its_last_event() -> None:
    assert recorded(START, added("1", 2_000), memory("2", 6_000), gone("2", 6_500))[APP].core_ms == 2 * 4_500


def test_an_executor_that_goes_after_the_end_counts_up_to_the_end() -> None:
    assert recorded(START, added("1", 2_000), END, gone("1", 9_500))[APP].core_ms == 2 * 7_000


def test_a_clock_that_is_set_back_makes_no_core_time_negative() -> None:
    assert recorded(START, added("1", 99_000), END)[APP].core_ms == 0
    assert (
        recorded(START, added("1", 2_000), END, added("2", 99_000, cores=1), gone("2", 98_000))[APP].core_ms == 14_000
    )
    assert recorded(START, added("1", 2_000), added("2", 5_000), gone("2", 3_000), END)[APP].core_ms == 14_000


@pytest.mark.parametrize("times", [1, 2])
def test_the_host_of_an_executor_is_that_of_its_blocks_as_in_sparks_pages(times: int) -> None:
    start = events.ExecutorAdded(1_000, "driver", events.ExecutorInfo("localhost", 2))
    for told in ((start, memory("driver", 1_100)), (memory("driver", 900), start)):
        assert recorded(*told, times=times)["app/executor/driver"].host == "block-host"
    assert recorded(start)["app/executor/driver"].host == "localhost"


def test_an_executor_that_registers_again_is_there_again() -> None:
    found = recorded(START, added("1", 2_000), gone("1", 3_000), added("1", 5_000, cores=3), END)
    executor = found["app/executor/000001"]
    assert (executor.added, executor.removed, executor.reason, executor.cores) == (5_000, 0, "", 3)
    assert found[APP].core_ms == 2 * 1_000 + 3 * 4_000


def test_an_executor_has_the_heap_of_its_profile_and_the_memory_for_blocks() -> None:
    found = recorded(PROFILE, START, added("1", 2_000, profile=1), memory("1", 2_100), added("2", 2_000, profile=7))
    executor = found["app/executor/000001"]
    assert (executor.memory_bytes, executor.storage_bytes) == (512 * MIB, 300 * MIB)
    assert found["app/executor/000002"].memory_bytes == 0
    assert found["app/env"].executor_memory_bytes == {"1": 512 * MIB}


@pytest.mark.parametrize(
    ("setting", "size"), [("2g", 2 << 30), ("1536m", 1536 * MIB), ("700", 700 * MIB), ("1TB", 1 << 40), ("much", 0)]
)
def test_a_driver_has_the_heap_of_its_setting(setting: str, size: int) -> None:
    environment = events.EnvironmentUpdate(spark_properties={"spark.driver.memory": setting})
    for told in ((memory("driver", 1_100), environment), (environment, memory("driver", 1_100))):
        found = recorded(PROFILE, *told, START, END)
        driver = found["app/executor/driver"]
        assert (driver.memory_bytes, driver.storage_bytes, driver.cores, driver.added) == (size, 300 * MIB, 0, 1_100)
        assert found[APP].core_ms == 0
    assert recorded(memory("driver", 1_100))["app/executor/driver"].memory_bytes == 1 << 30


def test_an_executor_of_an_earlier_version_takes_no_core_time_away() -> None:
    before = {"app/executor/000001": {"kind": "executor", "id": "1", "cores": 4, "added": 2_000}}
    projection = Projection("app", before.get)
    for event in (START, gone("1", 3_000), END):
        projection.apply(event, 1)
    app = rec.from_value(projection.take()[APP])
    assert isinstance(app, rec.Application)
    assert (app.cores, app.core_ms) == (0, 0)


@pytest.mark.parametrize("times", [1, 2])
def test_a_task_that_ends_after_its_executor_is_gone_counts_for_its_stage_only(times: int) -> None:
    first, last = ended(0, "1", "Success"), ended(1, "1", "ExecutorLostFailure")
    found = recorded(START, added("1", 2_000), first, gone("1", 5_000), last, times=times)
    stage, executor = found[stage_key("app", 0, 0)], found[executor_key("app", "1")]
    assert ((stage.tasks, stage.failed), (executor.tasks, executor.failed)) == ((2, 1), (1, 0))
