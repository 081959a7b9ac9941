"""docs/scale.md says what its model says, and the model does its sums."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks import scale, scale_page
from benchmarks.harness import load
from benchmarks.scale import Assumed, Case, Measured

MEASURED = Measured(
    node_writes=20_000, log_bytes=150, archive_bytes=100, memory_bytes=500, recovery_rate=1e6, restore_rate=1e6, load_rate=5e5,
    spark_core_rate=2e5, spark_start=10, job_puts=1, job_lists=2, job_gets=2,
)  # fmt: skip
ASSUMED = Assumed(retries=1.0, compacted_object=100_000_000, network=1e9, node_cores=10)
CASE = Case("case", nodes=10, archive=1e12, writes=100_000, drivers=50, businesses=2, live_keys=1e7)


def test_the_page_says_what_the_model_says() -> None:
    assert scale_page.PAGE.read_text() == scale_page.render(load())


def test_the_parameters_are_in_the_results() -> None:
    of = scale.measured(load())
    assert all(value > 0 for value in msgspec.structs.asdict(of).values())
    assert of.archive_bytes < of.log_bytes


def test_load_requests_and_money_of_a_case() -> None:
    cost = scale.cost(CASE, MEASURED, ASSUMED)
    assert cost.share == 0.5
    assert cost.log_rate == 1.5e6
    assert cost.archive_rate == 1e7
    assert cost.upload == pytest.approx(1e6 / 1e9)
    assert cost.objects == pytest.approx(10 * 2 / 60), "a business writes 0.75 MB/s: the interval seals first"
    assert cost.puts_a_day == pytest.approx(cost.objects * 86_400 + 1e7 * 86_400 / 1e8)
    assert cost.gets_a_day == pytest.approx(3 * cost.objects * 86_400)
    assert cost.lists_a_day == pytest.approx((2 + 3 / 8) * cost.objects * 86_400)
    assert cost.compacted == 10_000
    assert cost.pages == 10
    assert cost.storage_money == pytest.approx(23)
    assert cost.request_money == pytest.approx(
        30 * ((cost.puts_a_day + cost.lists_a_day) * 5e-6 + cost.gets_a_day * 4e-7)
    )
    assert cost.memory == 2 * 1e7 * 500 / 10
    assert cost.connections == 59
    assert cost.driver_writes == 2_000


def test_a_busy_business_seals_when_its_segment_is_full() -> None:
    busy = msgspec.structs.replace(CASE, nodes=1, businesses=1, writes=10_000_000)
    assert scale.cost(busy, MEASURED, ASSUMED).objects == pytest.approx(10_000_000 * 150 / (64 << 20))


def test_times_of_a_restore() -> None:
    times = scale.restore(CASE, MEASURED, ASSUMED)
    assert times.entries == 1e10
    assert times.own_disks == 1
    assert times.load == 20
    assert times.one_process == 10_000
    assert times.spark == pytest.approx(10 + 1e10 / (2e5 * 100))
    slow_network = msgspec.structs.replace(ASSUMED, network=1e6)
    assert scale.restore(CASE, MEASURED, slow_network).spark == pytest.approx(10 + 1e12 / 1e7), "reading takes longer"


def test_spark_takes_over_where_its_start_is_paid_back() -> None:
    assert scale.takes_over(MEASURED, 2) is None
    assert scale.takes_over(MEASURED, 5) is None, "as fast, and a start to pay"
    entries = scale.takes_over(MEASURED, 10)
    assert entries is not None
    assert entries / 1e6 == pytest.approx(10 + entries / 2e6)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.5 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (3 * 86_400, "3 days")]
)
def test_a_time_is_said_as_a_person_says_it(seconds: float, text: str) -> None:
    assert scale_page.span(seconds) == text
