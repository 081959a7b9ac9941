"""Records that fence writers, as every version stores them: what a process of an earlier version left is read and honoured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.spark.leases import Leases
from kvwal.spark.sink.marks import WriteMark, WriteMarks
from kvwal.spark.state import Lease, LeaseLost, Ledger, PositionMoved, Progress
from kvwal.structures.map.map import Map
from tests.support.disk.faults import FakeClock

OTHER = "00000000000000aa"
LEASE = {"kind": "lease", "holder": OTHER, "token": 7, "write": "00000000000000bb", "seconds": 60.0}
RUN = {"kind": "run", "write": "00000000000000cc", "note": {"files": 7}}
POSITION = {"kind": "position", "position": ["a", 7], "watermark": 95, "write": "00000000000000dd"}
WRITE = {"kind": "write", "run": "run-0", "epoch": 5, "parts": 2, "done": 1, "beat": 3, "staged": "w", "former": ["r"]}


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Map]:
    with kvwal.open(tmp_path / "root", archive=None, flush="os") as store:
        yield store.map("jobs")


def shape(value: dict[str, object], *differs: str) -> list[tuple[str, object]]:
    """The fields of a stored record in their order, without the values that differ from write to write."""
    return [(name, None if name in differs else field) for name, field in value.items()]


def test_a_lease_is_stored_as_before_and_one_that_is_there_is_honoured(jobs: Map) -> None:
    clock = FakeClock()
    jobs["!ledger/lease/nightly"] = LEASE
    lease = Lease(jobs, "nightly", clock=clock)
    assert not lease.take()
    clock.seconds += 60.0
    assert not lease.take()
    clock.seconds += 0.1
    assert lease.take()
    taken = jobs["!ledger/lease/nightly"]
    assert shape(taken, "holder", "write") == shape({**LEASE, "token": 8}, "holder", "write")
    lease.release()
    assert shape(jobs["!ledger/lease/nightly"], "write") == shape({**LEASE, "holder": "", "token": 8}, "write")


def test_a_reader_of_an_application_is_stored_as_before_and_one_that_is_there_is_honoured(jobs: Map) -> None:
    clock = FakeClock()
    jobs.put_many({f"!follower/{OTHER}": LEASE, "!lease/app-1": {"kind": "lease", "holder": OTHER}})
    reader = Leases(jobs, clock)
    assert not reader.request("app-1")
    assert jobs["!lease/app-1"] == {"kind": "lease", "holder": OTHER, "wanted": reader.holder}
    clock.seconds += 60.1
    assert reader.take("app-1")
    assert jobs["!lease/app-1"] == {"kind": "lease", "holder": reader.holder}
    own = jobs[f"!follower/{reader.holder}"]
    assert shape(own, "write") == shape({**LEASE, "holder": reader.holder, "token": 1}, "write")
    assert f"!follower/{OTHER}" not in jobs
    jobs.put_many({"!lease/app-1": {"kind": "lease", "holder": OTHER}, f"!follower/{OTHER}": LEASE})
    with pytest.raises(LeaseLost):
        reader.commit("app-1", {"app-1/log": 1})
    assert "app-1/log" not in jobs


def test_parts_and_positions_are_stored_as_before(jobs: Map) -> None:
    jobs.put_many({"!ledger/run/in/1": RUN, "!ledger/position/clicks": POSITION})
    ledger, progress = Ledger(jobs), Progress(jobs, "clicks")
    assert (ledger.missing("in", [1, 2]), ledger.note("in", 1)) == ([2], {"files": 7})
    assert (progress.position, progress.watermark) == (["a", 7], 95)
    with ledger.run("in", 2) as run:
        run.note = {"files": 7}
    assert shape(jobs["!ledger/run/in/2"], "write") == shape(RUN, "write")
    with progress.step() as step:
        step.saw(95)
    assert shape(jobs["!ledger/position/clicks"], "write") == shape(POSITION, "write")
    with pytest.raises(PositionMoved), progress.step():
        jobs["!ledger/position/clicks"] = POSITION


def test_a_mark_of_a_write_is_stored_as_before(jobs: Map) -> None:
    jobs["!ledger/query"] = WRITE
    marks = WriteMarks(jobs)
    mark = WriteMark("run-0", 5, parts=2, done=1, beat=3, staged="w", former=["r"])
    assert marks.of("query") == mark
    assert marks.claim("query", mark, mark)
    assert shape(jobs["!ledger/query"]) == shape(WRITE)
    assert marks.begin("job", WriteMark("job"))
    assert (jobs["!ledger/job"], jobs["!ledger/unfinished"]) == ({"kind": "write", "run": "job"}, ["job"])
