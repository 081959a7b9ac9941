"""The turn to write: a thread that waits writes a group itself, hands the turn on, and never leaves it behind."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.codecs import registry
from kvwal.errors import CommitUnknown, LogFailed, WrongLoop
from kvwal.log.waiter import Waiter
from kvwal.ports.boundary import settle
from kvwal.store.sync import WritableStore
from kvwal.structures.map.map import Map
from tests.support.disk.faults import FakeDisk, open_store


class Syncs(FakeDisk):
    """A disk that notes on which threads groups are synced."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []

    def enter(self, call: str, path: Path) -> None:
        if call == "datasync":
            self.threads.append(threading.current_thread().name)
        super().enter(call, path)


class Caller(threading.Thread):
    """A thread that makes one call. `outcome` waits for its result or its error."""

    def __init__(self, name: str, call: Callable[[], Any]) -> None:
        super().__init__(name=name, daemon=True)
        self._call = call
        self._future: Future[Any] = Future()
        self.start()

    def run(self) -> None:
        settle(self._future, self._call)

    def outcome(self) -> Any:
        return self._future.result(60)


def waiting(store: WritableStore, count: int) -> None:
    """Return when so many slots wait in the ring."""
    while store.stats()["businesses"]["jobs"]["ring_slots"] < count:
        pass


def test_a_thread_writes_its_own_put_and_the_main_thread_has_it_written(tmp_path: Path) -> None:
    """A signal handler that raises would end the write in the middle, and one that writes would wait for itself."""
    disk = Syncs()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        disk.threads.clear()
        Caller("caller", lambda: jobs.put("a", 1)).outcome()
        assert disk.threads == ["caller"]
        jobs["b"] = 1
        assert threading.main_thread().name not in disk.threads
        assert len(disk.threads) == 2


def test_those_who_come_meanwhile_are_written_together_by_one_of_them(tmp_path: Path) -> None:
    disk = Syncs()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["before"] = 1
        disk.threads.clear()
        disk.hold("datasync")
        leader = Caller("leader", lambda: jobs.put("a", 1))
        disk.wait_for("held datasync", 1)
        followers = [Caller(f"follower-{n}", lambda n=n: jobs.put(n, 1)) for n in range(5)]  # type: ignore[misc]
        waiting(store, 5)
        disk.go_on()
        stamps = [caller.outcome() for caller in (leader, *followers)]
        assert len(set(stamps)) == 6
        first, second = disk.threads
        assert (first, second[:9]) == ("leader", "follower-")


def test_the_main_thread_is_served_by_a_thread_that_waits(tmp_path: Path) -> None:
    """Only the main thread waits: the turn goes to a thread of the store, and the caller that led returns at once."""
    disk = Syncs()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["before"] = 1
        disk.hold("datasync")
        leader = Caller("leader", lambda: jobs.put("a", 1))
        disk.wait_for("held datasync", 1)
        future = jobs.submit("b", 1)
        helper = Caller("helper", lambda: (waiting(store, 2), disk.go_on()))
        jobs["c"] = 1
        helper.outcome()
        leader.outcome()
        assert future.result(60)
        assert set(jobs) == {"before", "a", "b", "c"}


def test_callbacks_run_on_the_stores_thread_also_when_a_caller_led(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        disk.hold("datasync")
        leader = Caller("leader", lambda: jobs.put("a", 1))
        disk.wait_for("held datasync", 1)
        second = Caller("second", lambda: jobs.put("b", 1))
        waiting(store, 1)
        future = jobs.submit("c", 1)
        seen: Future[str] = Future()
        future.add_done_callback(lambda _: seen.set_result(threading.current_thread().name))
        disk.go_on()
        assert seen.result(60) == "kvwal"
        leader.outcome()
        second.outcome()


def test_a_thread_that_writes_does_not_wait_for_another_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec or a finalizer that runs while its thread writes would wait for its own thread."""
    with open_store(tmp_path, FakeDisk()) as store:
        jobs, others = store.map("jobs"), store.map("others")
        errors: list[type[Exception]] = []

        def decode(data: bytes) -> Any:
            for target in (jobs, others):
                try:
                    target["inside"] = 1
                except WrongLoop as error:
                    errors.append(type(error))
            return {}

        Caller("first", lambda: jobs.put("a", {"x": 1, "y": 2})).outcome()
        codec = registry.by_name["json"]
        monkeypatch.setitem(registry.by_name, "json", codec._replace(decode=decode))
        assert Caller("second", lambda: jobs.replace("a", {"y": 2, "x": 1}, 1)).outcome()
        assert set(errors) == {WrongLoop}
        assert "inside" not in jobs
        jobs["after"] = 1


def test_a_bug_on_a_callers_thread_stops_the_log_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["before"] = 1
        state: Any = jobs._business.state
        disk.hold("datasync")
        leader = Caller("leader", lambda: jobs.put("a", 1))
        disk.wait_for("held datasync", 1)
        followers = [Caller(f"follower-{n}", lambda n=n: jobs.put(n, 1)) for n in range(3)]  # type: ignore[misc]
        waiting(store, 3)
        log: Any = jobs._business.log  # type: ignore[attr-defined]
        monkeypatch.setattr(log.writer._memory, "apply", lambda entries: state.no_such_thing)
        disk.go_on()
        with pytest.raises(CommitUnknown):
            leader.outcome()
        # Of these is known that they were not written: `CommitUnknown`, a `LogFailed` too, would say that the log went on.
        for refused in [*(follower.outcome for follower in followers), lambda: jobs.put("later", 1)]:
            with pytest.raises(LogFailed, match="failed earlier"):
                refused()
    with open_store(tmp_path) as store:
        assert {"before", "a"} <= set(store.map("jobs"))


def test_a_write_deep_in_a_callers_stack_harms_no_other(tmp_path: Path) -> None:
    """Such a thread does not write itself: a `RecursionError` in the middle of a group would end the log."""

    def deep(frames: int, call: Callable[[], Any]) -> Any:
        return deep(frames - 1, call) if frames else call()

    def with_room_for(frames: int, call: Callable[[], Any]) -> bool:
        try:
            deep(sys.getrecursionlimit() - len(inspect.stack(0)) - frames, call)
        except RecursionError:
            return False
        return True

    with open_store(tmp_path) as store:
        jobs = store.map("jobs")
        for room in range(5, 40):
            put = Caller("put", lambda room=room: with_room_for(room, lambda: jobs.put(room, 1)))  # type: ignore[misc]
            returned = put.outcome()
            Caller("submit", lambda room=room: with_room_for(room, lambda: jobs.submit(-room, 1))).outcome()  # type: ignore[misc]
            Caller("other", lambda: jobs.put("other", 1)).outcome()
            assert room in jobs or not returned
        assert returned, "there was room enough"


def test_a_fork_on_a_thread_that_writes_leaves_the_child_able_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of the threads that write is the parent's: the child's threads may get the same ids."""
    children: list[int] = []

    def write_in_child() -> None:
        signal.alarm(60)
        code = 1
        try:
            with kvwal.open(tmp_path / "child", archive=None) as mine:
                mine.map("jobs")["a"] = 1
                code = 0
        finally:
            os._exit(code)

    with open_store(tmp_path / "parent") as store:
        jobs = store.map("jobs")
        jobs["before"] = 1
        log: Any = jobs._business.log  # type: ignore[attr-defined]
        apply = log.writer._memory.apply

        def fork_and_apply(entries: Any) -> None:
            children.append(os.fork())
            if children[0] == 0:
                write_in_child()
            apply(entries)

        with monkeypatch.context() as patched:
            patched.setattr(log.writer._memory, "apply", fork_and_apply)
            Caller("leader", lambda: jobs.put("a", 1)).outcome()
        assert os.waitpid(children[0], 0)[1] == 0


def test_signals_that_raise_in_the_main_thread_never_stop_the_writes(tmp_path: Path) -> None:
    """Hundreds of them, at any step of a put, while other threads write."""

    class Signalled(Exception):
        """Raised by the handler."""

    def handler(*_: object) -> None:
        raise Signalled

    stop = threading.Event()
    before = signal.signal(signal.SIGALRM, handler)
    with open_store(tmp_path) as store:
        jobs = store.map("jobs")
        callers = [Caller(f"other-{n}", lambda n=n: put_until(jobs, n, stop)) for n in range(3)]  # type: ignore[misc]
        interrupted = 0
        acknowledged: set[str] = set()
        try:
            for number in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, (1 + number % 40) * 20e-6)
                    try:
                        jobs[f"main-{number}"] = number
                        acknowledged.add(f"main-{number}")
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except Signalled:
                    interrupted += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            stop.set()
        for name, caller in enumerate(callers):
            acknowledged |= {f"{name}-{count}" for count in range(caller.outcome())}
        assert interrupted
        jobs["after"] = 1
        assert acknowledged | {"after"} <= set(jobs)
    with open_store(tmp_path) as store:
        assert acknowledged | {"after"} <= set(store.map("jobs"))


def test_signal_handlers_may_write_while_they_interrupt_a_write(tmp_path: Path) -> None:
    """The main thread holds no lock, so the handler's put does not wait for the put that it interrupts."""
    handled: list[str] = []
    with open_store(tmp_path) as store:
        jobs = store.map("jobs")

        def handler(*_: object) -> None:
            name = f"handler-{len(handled)}"
            jobs[name] = 1
            handled.append(name)

        before = signal.signal(signal.SIGALRM, handler)
        try:
            for number in range(200):
                signal.setitimer(signal.ITIMER_REAL, (1 + number % 40) * 20e-6)
                jobs[f"main-{number}"] = number
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert handled
        assert {*handled, *(f"main-{number}" for number in range(200))} == set(jobs)


def put_until(jobs: Map, name: int, stop: threading.Event) -> int:
    count = 0
    while not stop.is_set():
        jobs[f"{name}-{count}"] = count
        count += 1
    return count


def test_a_waiter_does_its_duty_before_it_returns_its_result() -> None:
    """The turn that was handed to a thread whose write was answered meanwhile is not lost."""
    done: list[str] = []

    def wait() -> Any:
        waiter = Waiter()
        assert waiter.may_lead
        waiter.lead(lambda: done.append("duty"))
        waiter.set_result(7)
        return waiter.result()

    assert Caller("caller", wait).outcome() == 7
    assert done == ["duty"]
    assert not Waiter().may_lead, "this is the main thread"
