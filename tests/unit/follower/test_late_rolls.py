"""A rolling log of which a roll is missing is read up to the gap, and on from there when the roll comes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark.eventlog.listing import EventLogFile, before_gap
from tests.support.cli import kvwal as command
from tests.support.event_logs import TASKS, counts, event_log, write_rolling
from tests.unit.follower.test_follower import Setting, setting

__all__ = ["setting"]
APP = "app-1"
ROLLS = 4
EVERY_JOB = ("SUCCEEDED", ROLLS, ROLLS * TASKS, ROLLS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path / "store", archive=None, flush="os") as store:
        yield store


def rolls() -> list[bytes]:
    """A log in four rolls of one job each."""
    text = event_log(APP, ROLLS).splitlines(keepends=True)
    ends = [number + 1 for number, line in enumerate(text) if b"SparkListenerJobEnd" in line]
    cuts = [0, *ends[:-1], len(text)]
    return [b"".join(text[begin:end]) for begin, end in pairwise(cuts)]


def whole_log(folder: Path, *, in_progress: bool = False) -> Path:
    return write_rolling(folder, APP, rolls(), in_progress=in_progress)


def take_away(log: Path, roll: int, beside: Path) -> Path:
    """Move a roll out of its log. Returns where it is meanwhile."""
    kept = beside / f"events_{roll}_{APP}"
    (log / kept.name).rename(kept)
    return kept


@pytest.mark.parametrize("in_progress", [False, True])
@pytest.mark.parametrize("roll", [2, 3])
def test_reading_stops_before_a_missing_roll_and_goes_on_when_it_is_there(
    store: kvwal.Store, tmp_path: Path, roll: int, in_progress: bool
) -> None:
    log = whole_log(tmp_path, in_progress=in_progress)
    away = take_away(log, roll, tmp_path)
    for events in (sum(text.count(b"\n") for text in rolls()[: roll - 1]), 0):
        (read,) = record_event_logs(store, [log])
        assert (read.complete, read.events, read.damaged) == (False, events, 0)
        assert f"roll {roll} is missing" in read.problem
        assert store.map("spark")[f"{APP}/log"]["missing_roll"] == roll
    assert counts(store.map("spark"), APP) == ("RUNNING", roll - 1, (roll - 1) * TASKS, roll - 1)
    away.rename(log / away.name)
    (read,) = record_event_logs(store, [log])
    assert (read.complete, read.problem) == (not in_progress, "")
    assert counts(store.map("spark"), APP) == EVERY_JOB
    assert store.map("spark")[f"{APP}/log"]["missing_roll"] == 0


def test_a_log_without_its_first_roll_is_said_and_read_when_it_is_there(store: kvwal.Store, tmp_path: Path) -> None:
    """It looked like a log that had just begun."""
    (folder := tmp_path / "logs").mkdir()
    log = whole_log(folder)
    away = take_away(log, 1, tmp_path)
    (read,) = record_event_logs(store, [folder])
    assert "roll 1 is missing" in read.problem
    assert not read.skipped
    away.rename(log / away.name)
    assert record_event_logs(store, [folder])[0].complete
    assert counts(store.map("spark"), APP) == EVERY_JOB


@pytest.mark.parametrize("in_progress", [False, True])
@pytest.mark.parametrize("roll", [1, 2, 3])
def test_a_follower_reads_on_when_a_missing_roll_is_there(setting: Setting, roll: int, in_progress: bool) -> None:
    log = whole_log(setting.logs, in_progress=in_progress)
    away = take_away(log, roll, setting.logs.parent)
    follower = setting.follower()
    for _ in range(2):
        follower.round()
        last = setting.status.last
        assert last is not None
        assert (last.complete, last.growing, last.stopped_early + last.skipped) == (0, 0, 1)
    away.rename(log / away.name)
    follower.round()
    assert counts(setting.records, APP) == EVERY_JOB
    assert setting.records[f"{APP}/log"]["complete"] is not in_progress


def test_a_follower_notices_a_gap_after_the_roll_that_it_reads(setting: Setting) -> None:
    texts = rolls()
    log = write_rolling(setting.logs, APP, texts[:1], in_progress=True)
    follower = setting.follower()
    follower.round()
    (log / f"events_3_{APP}").write_bytes(texts[2])
    follower.round()
    assert setting.status.last is not None
    assert setting.status.last.stopped_early == 1
    whole_log(setting.logs)
    follower.round()
    assert counts(setting.records, APP) == EVERY_JOB


def test_rolls_that_are_deleted_behind_the_position_are_not_missing(setting: Setting) -> None:
    texts = rolls()
    log = write_rolling(setting.logs, APP, texts[:3], in_progress=True)
    follower = setting.follower()
    follower.round()
    for roll in (1, 2):
        (log / f"events_{roll}_{APP}").unlink()
    (log / f"events_4_{APP}").write_bytes(texts[3])
    follower.round()
    assert counts(setting.records, APP) == EVERY_JOB
    assert setting.records[f"{APP}/log"]["missing_roll"] == 0


@pytest.mark.parametrize("name", [f"eventlog_v2_{APP}", APP])
def test_a_log_that_was_read_to_its_end_and_has_grown_is_read_on(setting: Setting, name: str) -> None:
    """A copy of a log arrives in pieces, and in any order: `appstatus_…` before the last rolls."""
    texts = rolls()
    if name == APP:
        (setting.logs / APP).write_bytes(b"".join(texts[:2]))
    else:
        write_rolling(setting.logs, APP, texts[:2], in_progress=False)
    with kvwal.open(setting.logs.parent / "beside", archive=None, flush="os") as beside:
        assert record_event_logs(beside, [setting.logs])[0].complete
        follower = setting.follower()
        follower.round()
        if name == APP:
            (setting.logs / APP).write_bytes(b"".join(texts))
        else:
            whole_log(setting.logs)
        follower.round()
        assert counts(setting.records, APP) == EVERY_JOB
        assert record_event_logs(beside, [setting.logs])[0].complete
        assert counts(beside.map("spark"), APP) == EVERY_JOB
        assert record_event_logs(beside, [setting.logs])[0].events == 0


def test_the_commands_say_which_roll_is_missing(tmp_path: Path) -> None:
    log = whole_log(tmp_path)
    away = take_away(log, 2, tmp_path)
    ran = command("record", tmp_path / "root", log)
    assert (ran.code, "roll 2 is missing" in ran.err, "stopped early" in ran.out) == (4, True, True)
    shown = command("jobs", tmp_path / "root", APP)
    assert "Roll 2 of the event log is missing" in shown.out
    shutil.copy(away, log)
    ran = command("record", tmp_path / "root", log, "--json")
    assert (ran.code, json.loads(ran.out)["complete"]) == (0, True)
    assert "missing" not in command("jobs", tmp_path / "root", APP).out


@pytest.mark.parametrize(
    ("rolls", "read", "kept", "missing"),
    [
        ([(0, 0)], 0, [0], 0),
        ([(1, 1), (2, 2)], 0, [1, 2], 0),
        ([(1, 1), (3, 3)], 0, [1], 2),
        ([(2, 2)], 0, [], 1),
        ([(7, 0), (8, 8)], 0, [7, 8], 0),
        ([(7, 0), (9, 9)], 3, [7], 8),
        ([(4, 4), (5, 5)], 3, [4, 5], 0),
        ([(5, 5)], 3, [], 4),
        ([(1, 1), (5, 5)], 5, [1, 5], 0),
        ([], 0, [], 0),
    ],
)
def test_the_files_before_a_gap(rolls: list[tuple[int, int]], read: int, kept: list[int], missing: int) -> None:
    files = [EventLogFile(roll, Path(str(roll)), covers) for roll, covers in rolls]
    found, gap = before_gap(files, read)
    assert ([file.roll for file in found], gap) == (kept, missing)
