"""Times are UTC: a command prints, and takes, the same text wherever it runs, also where clocks are changed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import kvwal
from kvwal.cli.spark.jobs import parse_since
from kvwal.cli.text import parse_moment, parse_time
from kvwal.hlc import to_text, to_timestamp
from tests.repository.source import ROOT
from tests.support.cli import kvwal as command

ZONES = ("UTC", "Asia/Kolkata", "America/New_York")
TYPED = (
    ("2025-01-31T12:00:00", "2025-01-31 12:00:00.000Z"),
    ("2025-01-31", "2025-01-31 00:00:00.000Z"),
    ("2025-03-09 02:30", "2025-03-09 02:30:00.000Z"),  # which clocks in New York do not show
    ("2025-11-02 01:30", "2025-11-02 01:30:00.000Z"),  # which they show twice
    ("2025-11-02T01:30:00-04:00", "2025-11-02 05:30:00.000Z"),
    ("2025-11-02T01:30:00-05:00", "2025-11-02 06:30:00.000Z"),
    ("2025-11-02 01:30:00+05:30", "2025-11-01 20:00:00.000Z"),
    ("2025-11-02 01:30:00Z", "2025-11-02 01:30:00.000Z"),
)


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The zone of this machine, while the test runs."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.parametrize(("typed", "moment"), TYPED)
def test_a_typed_time_is_utc_unless_it_has_a_zone(zone: str, typed: str, moment: str) -> None:
    assert to_text(parse_time(typed) >> 16 << 16) == moment
    assert parse_moment(typed) == parse_time(typed)


def test_a_printed_time_is_taken_as_it_was_printed(zone: str) -> None:
    for hour in range(48):  # of the night of the change and the days around it
        timestamp = to_timestamp(datetime(2025, 11, 1, 12, 30, tzinfo=UTC)) + (hour * 3_600_000 << 16)
        printed = to_text(timestamp)
        assert parse_time(printed) == timestamp
        assert parse_time(printed.partition("Z")[0]) == timestamp, "without its Z, as SQL may show it"


def test_yesterday_begins_at_midnight_of_utc(zone: str) -> None:
    before = datetime.now(UTC).date()
    since = datetime.fromtimestamp(parse_since("yesterday") / 1000, UTC)
    assert since.isoformat()[10:] == "T00:00:00+00:00"
    assert since.date() + timedelta(days=1) in (before, datetime.now(UTC).date())  # the day may have changed meanwhile


def test_commands_print_the_same_everywhere(zone: str, tmp_path: Path) -> None:
    assert command("record", tmp_path, ROOT / "tests" / "golden" / "event-log").code == 0
    assert "2026-11-21 05:02:48Z" in command("jobs", tmp_path).out
    assert "2026-11-21 05:03:06Z" in command("jobs", tmp_path, "--failed").out
    since = [command("jobs", tmp_path, "--failed", "--since", f"2026-11-21 05:03:0{second}").out for second in (6, 8)]
    assert ["id is too large" in out for out in since] == [True, False]
    assert since[1] == "Nothing failed since 2026-11-21 05:03:08Z.\n"
    typed = command("query", tmp_path, "SELECT started, [started] AS all FROM spark_apps", "--json").out
    started = json.loads(typed)["started"]
    assert started.startswith("2026-11-21 05:02:48.")
    assert started.endswith("Z")
    assert json.loads(typed)["all"] == [started]


def test_sql_shows_the_time_of_an_entry_as_history_does(zone: str, tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs").put("a", 1, ttl=3600)
    of_history = json.loads(command("history", tmp_path, "jobs", "a", "--json").out)
    select = "SELECT time, expires FROM jobs"
    assert json.loads(command("query", tmp_path, select, "--json").out) == {
        name: of_history[name].partition("+")[0] for name in ("time", "expires")
    }
    assert command("query", tmp_path, select, "--format", "csv").out.split("\n")[1].startswith(of_history["time"][:24])
    none = command("query", tmp_path, f"{select} WHERE time > now() OR time < now() - INTERVAL 1 HOUR", "--json")
    assert none.out == ""
    with kvwal.open(tmp_path, read_only=True) as store:
        assert str(store.sql(select).schema.field("time").type) == "timestamp[us, tz=UTC]"
