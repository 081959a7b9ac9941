"""State that jobs keep, on both kinds of store: a fenced lease, a ledger of runs, and the progress of incremental processing."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest

import kvwal
from kvwal.ports.clock import SystemClock
from kvwal.spark.state import Lease, LeaseHeld, LeaseLost, Ledger, PositionMoved, Progress
from kvwal.spark.state.ledger import Run
from kvwal.structures.map.map import Map
from tests.repository.source import ROOT
from tests.support.threads import THREADS, at_once

PAGE = ROOT / "docs" / "spark-state.md"
SECONDS = 60.0
_NAMES = count()


class HandClock(SystemClock):
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 0.0

    def elapsed(self) -> float:
        return self.now


def leases(jobs: Map, number: int = 2) -> list[tuple[Lease, HandClock]]:
    """Leases of one name, each of a process with a clock of its own."""
    name = f"lease-{next(_NAMES)}"
    clocks = [HandClock() for _ in range(number)]
    return [(Lease(jobs, name, seconds=SECONDS, clock=clock), clock) for clock in clocks]


def wait_in_vain(lease: Lease, clock: HandClock) -> None:
    """Look at a lease, let its time go by, and look again."""
    assert not lease.take()
    clock.now += SECONDS + 1


def test_one_process_holds_a_lease_until_it_releases_it(jobs: Map) -> None:
    (first, clock), (second, later) = leases(jobs)
    assert first.take()
    assert first.take()
    assert (first.token, second.token) == (1, 0)
    wait_in_vain(second, later)
    first.renew()
    clock.now += 10 * SECONDS
    wait_in_vain(second, later)
    with first.transaction() as t:
        t["a"] = 1
    assert not second.take()
    with pytest.raises(LeaseHeld, match="another process"):
        second.acquire(timeout=0)
    first.release()
    assert second.acquire(timeout=0).token == 2
    with pytest.raises(LeaseLost, match="has token 2"):
        first.renew()


def test_the_store_refuses_the_writes_of_a_former_holder(jobs: Map) -> None:
    (stopped, _), (heir, clock) = leases(jobs)
    stopped.take()
    with pytest.raises(LeaseLost, match="had token 1"), stopped.transaction() as t:  # noqa: PT012 what happens meanwhile
        t["result"] = "of the stopped one"
        del t["other"]
        wait_in_vain(heir, clock)
        assert heir.take()
        with heir.transaction() as of_heir:
            of_heir.update({"result": "of the heir", "other": 1})
    assert (jobs["result"], jobs["other"]) == ("of the heir", 1)
    with pytest.raises(LeaseLost, match="nothing was written"):
        stopped.commit_if({"other": 1}, {"other": 2})
    wait_in_vain(stopped, stopped_clock(stopped))
    assert stopped.take()
    assert stopped.token == 3


def stopped_clock(lease: Lease) -> HandClock:
    clock = lease._clock
    assert isinstance(clock, HandClock)
    return clock


def test_a_lease_that_was_never_held_or_was_deleted_writes_nothing(jobs: Map) -> None:
    (lease, _), (other, _) = leases(jobs)
    with pytest.raises(LeaseLost, match="does not hold"), other.transaction() as t:
        t["a"] = 1
    with pytest.raises(ZeroDivisionError), lease, lease.transaction() as t:
        t["a"] = 1 / 0
    lease.take()
    jobs.commit_if(
        {f"!ledger/lease/{lease.name}": jobs[f"!ledger/lease/{lease.name}"]}, {}, [f"!ledger/lease/{lease.name}"]
    )
    with pytest.raises(LeaseLost, match="was deleted"):
        lease.renew()
    assert "a" not in jobs
    with pytest.raises(kvwal.ConfigError, match="number of seconds"):
        Lease(jobs, "a", seconds=0)


def test_a_lease_in_a_with_block_is_renewed_and_then_free(jobs: Map) -> None:
    name = f"!ledger/lease/kept-{next(_NAMES)}"
    with Lease(jobs, name.rpartition("/")[2], seconds=0.2) as lease:
        record = jobs[name]
        while jobs[name] == record:
            pass
        assert lease.token == 1
    assert jobs[name]["holder"] == ""
    with lease:
        assert lease.token == 2


def test_a_part_is_done_once_with_its_result(jobs: Map) -> None:
    ledger = Ledger(jobs)
    with ledger.run("in", part=1) as run:
        assert not run.is_done
        run["result"] = {"rows": 3}
        run.note = {"files": 2}
        assert "result" not in jobs
    assert run.is_committed
    with ledger.run("in", part=1) as again:
        assert (again.is_done, again.note) == (True, {"files": 2})
        again["result"] = "again"
    assert not again.is_committed
    with pytest.raises(ZeroDivisionError), ledger.run("in", part=2) as failed:
        failed["result"] = 1 / 0
    assert (jobs["result"], ledger.note("in", 1), ledger.note("in", 2)) == ({"rows": 3}, {"files": 2}, None)
    assert ledger.missing("in", range(3)) == [0, 2]
    with ledger.run("in"):
        pass
    assert ledger.is_done("in")
    ledger.forget("in", 1)
    ledger.forget("in", 7)
    assert ledger.missing("in", range(3)) == [1, 2]


def test_no_two_parts_have_one_mark(jobs: Map) -> None:
    ledger = Ledger(jobs)
    parts = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("a/b%", "c"), ("a", "b%2Fc"), ("", "a/b/c"), ("a/b/c", "")]
    for name, part in parts:
        with ledger.run(name, part) as run:
            run.note = [name, part]
        assert run.is_committed, (name, part)
    assert [ledger.note(*names) for names in parts] == [list(names) for names in parts]
    with ledger.run("a", 1):
        pass
    assert ledger.is_done("a", "1"), "a number and its text are one part"


def test_of_runs_at_once_one_is_committed(jobs: Map) -> None:
    ledger = Ledger(jobs)

    def work(name: int) -> Run:
        with ledger.run("together") as run:
            run["winner"] = name
            run[f"of-{name}"] = True
        return run

    committed = [run.is_committed for run in at_once(work)]
    assert committed.count(True) == 1
    winner = committed.index(True)
    assert {key: jobs[key] for key in jobs if not key.startswith("!")} == {"winner": winner, f"of-{winner}": True}


def test_a_step_commits_position_watermark_and_results_together(jobs: Map) -> None:
    progress = Progress(jobs, "clicks", lateness=10)
    assert (progress.position, progress.watermark) == (None, None)
    with progress.step() as step:
        assert step.position is None
        assert not step.is_late(0)
        step.position = {"file": "a", "line": 7}
        step["sum"] = 7
    assert (progress.position, progress.watermark) == ({"file": "a", "line": 7}, None)
    with progress.step() as step:
        step.saw(105)
        step.saw(50.5)
    assert (progress.position, progress.watermark) == ({"file": "a", "line": 7}, 95)
    with Progress(jobs, "clicks", lateness=1000).step() as step:
        assert step.is_late(94.9)
        assert not step.is_late(95)
        step.saw(200)
    assert progress.watermark == 95, "it does not fall"
    with pytest.raises(ZeroDivisionError), progress.step() as step:
        step.position = 1 / 0
    assert jobs["sum"] == 7


def test_a_step_of_a_position_that_moved_is_refused(jobs: Map) -> None:
    progress = Progress(jobs, "two")
    with pytest.raises(PositionMoved, match="nothing of the step"), progress.step() as late:  # noqa: PT012 both begin first
        late["sum"] = "of the late one"
        with progress.step() as step:
            step["sum"] = "of the first one"
        late.position = 9
    assert (progress.position, jobs["sum"]) == (None, "of the first one")


def test_steps_at_once_count_each_piece_once(jobs: Map) -> None:
    progress = Progress(jobs, "shared")

    def work(name: int) -> None:
        for _ in range(3):
            moved = True
            while moved:
                try:
                    with progress.step() as step:
                        step.position = (step.position or 0) + 1
                        step[f"piece-{step.position}"] = name
                    moved = False
                except PositionMoved:
                    pass

    at_once(work)
    assert progress.position == 3 * THREADS
    assert len(list(jobs.scan("piece-"))) == 3 * THREADS


def test_runs_and_steps_under_a_lease_are_refused_with_it(jobs: Map) -> None:
    (stopped, _), (heir, clock) = leases(jobs)
    stopped.take()
    with Ledger(stopped).run("in") as run, Progress(stopped, "in").step() as step:
        run["a"], step["b"] = 1, 1
    assert run.is_committed
    with Ledger(stopped).run("in") as run:
        pass
    assert not run.is_committed
    with pytest.raises(PositionMoved), Progress(stopped, "in").step(), Progress(stopped, "in").step():
        pass
    wait_in_vain(heir, clock)
    heir.take()
    with pytest.raises(LeaseLost), Ledger(stopped).run("in", part=1) as run:
        run["a"] = 2
    with pytest.raises(LeaseLost), Progress(stopped, "in").step() as step:
        step["b"] = 2
    assert (jobs["a"], jobs["b"]) == (1, 1)
    assert Ledger(heir).missing("in", [0, 1]) == [1]


def test_changes_are_accepted_inside_one_block_only(jobs: Map) -> None:
    lease = Lease(jobs, f"once-{next(_NAMES)}")
    lease.take()
    once = lease.transaction()
    with pytest.raises(kvwal.TransactionClosed, match="was not begun"):
        once["a"] = 1
    with once:
        once["a"] = 1
        del once["a"]
        once["b"] = 1
        once["b"] = 2
        once[1] = "number"
        once[True] = "truth"
    with pytest.raises(kvwal.TransactionClosed, match="is over"):
        del once["b"]
    with pytest.raises(kvwal.TransactionClosed, match="was used before"), once:
        pass
    assert sorted(f"{key!r} {value!r}" for key, value in jobs.items() if not str(key).startswith("!")) == [
        "'b' 2",
        "1 'number'",
        "True 'truth'",
    ]


def test_the_lines_of_the_page_run(jobs: Map) -> None:
    jobs["error"] = "of the last night"
    names: dict[str, Any] = {"state": jobs}
    for lines in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        assert lines.count("\n") < 10
        exec(lines, names)
    assert (names["first"], names["again"]) == (True, True)
    assert names["lease"].token == 0
    assert names["ledger"].note("orders-2026-11-24", 2) == {"files": 7}
    assert (names["progress"].position, names["progress"].watermark) == (300, 1_764_000_000 - 600)
    found = {key: value for key, value in jobs.items() if not key.startswith("!")}
    assert found == {"clicks": 300, "sum/0": 100, "sum/1": 101, "sum/2": 102, "owner": "me", "since": 8}
