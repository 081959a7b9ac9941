"""Spark's own event log of the recorded application, and keeping it when Spark has ended.

The recorder's log in the spool is not kept: it begins with the recorder, and lacks the values of accumulators. Spark's own log is
whole when Spark has stopped. So it is kept then:

| Spark | the log is kept |
|---|---|
| has stopped when the recorder is closed | by `close`, before it returns |
| goes on after the recorder was closed | by a thread, when Spark stops |
| ends with Python, and still runs then | when Python ends: the recorder stops Spark, as the end of Python would do next |
| goes on after the end of Python | when Python ends, as far as it is written |
"""

from __future__ import annotations

import logging
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from kvwal.errors import ConfigError, StoreClosed, StoreLocked
from kvwal.location.connect import is_cluster
from kvwal.ports.boundary import OnError, at_exit, contain, start_thread, trace_of_bug
from kvwal.ports.clock import SYSTEM
from kvwal.ports.processes import tell_if_forked
from kvwal.ports.retries import retry_on
from kvwal.ports.tasks import ExitExecutor
from kvwal.spark.eventlog.folders import is_remote, logs_at, open_folder
from kvwal.spark.eventlog.listing import IN_PROGRESS, EventLog
from kvwal.spark.eventlog.log_reader import BUSINESS
from kvwal.spark.eventlog.logs import ApplicationIdentity, LocalEventLog, identify
from kvwal.spark.kept.contents import contents_of
from kvwal.spark.kept.keeping import Keeping, keep_log
from kvwal.spark.leases import Leases, no_longer_than_a_lease
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.recording.driver import Driver
from kvwal.spark.recording.target import LogStore

LOCK_SECONDS = 30.0
"""Longest wait for the lock of the node that logs are kept in. Another driver has it while it keeps a log."""
FINISH_SECONDS = 10.0
"""Longest wait for the end of a log whose Spark is stopping, or is gone."""
POLL_SECONDS = 0.25
_SECONDS_BETWEEN_TRIES = 2.0
_LOCAL = "file:"
_UNREADABLE_CODECS = ("lzf",)
_log = logging.getLogger("kvwal.spark")


class NoOwnLog(ConfigError):
    """Spark writes no event log of the application, or none that kvwal can read."""


class OwnLog:
    """The event log that Spark itself writes, one file or rolled ones, plain or compressed, on this machine or behind a URL."""

    def __init__(self, driver: Driver) -> None:
        """`NoOwnLog` if Spark writes none, or none that kvwal can read."""
        place = driver.event_log()
        if place is None:
            raise NoOwnLog(
                "Spark writes no event log of this application, so none can be kept.",
                hint="Set spark.eventLog.enabled to true and spark.eventLog.dir to a folder, or do not ask for the log.",
            )
        if (codec := driver.event_log_codec()) in _UNREADABLE_CODECS:
            raise NoOwnLog(
                f"Spark compresses its event log with {codec}, which kvwal cannot read, so the log cannot be kept.",
                hint="Set spark.eventLog.compression.codec to zstd, or do not ask for the log.",
            )
        self.place = _local_path(place)
        """The path or URL of the finished log."""
        try:
            open_folder(self.place)
        except ConfigError as error:
            raise NoOwnLog(
                f"The event log cannot be kept: {error.what}",
                hint="Let Spark write it to a folder of this machine (file:///…) or to a bucket (s3a://…),"
                " or do not ask for the log.",
            ) from error

    @property
    def is_remote(self) -> bool:
        """Whether the log is behind a URL."""
        return is_remote(self.place)

    def now(self) -> EventLog:
        """The log as it is now. `FileNotFoundError` if it is gone. Raises as `LogFolder.list`."""
        if self.is_remote:
            places = (self.place + IN_PROGRESS, self.place)
            log: EventLog | None = next((log for place in places for log in logs_at(open_folder(place))), None)
        else:
            path = Path(self.place)
            growing = path.with_name(path.name + IN_PROGRESS)
            log = LocalEventLog(growing if growing.exists() else path)
        if log is None or not log.files():
            raise FileNotFoundError(self.place)
        return log

    def finished(self) -> EventLog:
        """The log when it is finished, or as it is after `FINISH_SECONDS`. Raises as `now`."""
        until = time.monotonic() + FINISH_SECONDS
        while self.now().in_progress() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return self.now()  # under the name that Spark has given it at its end


def _local_path(place: str) -> str:
    """The path of a place on this machine, which Hadoop writes as `file:/folder/log`; else the place itself."""
    return f"/{place.removeprefix(_LOCAL).lstrip('/')}" if place.startswith(_LOCAL) else place


class _Waiting:
    """A thread that waits for the end of Spark, until it is woken."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.woken = threading.Event()
        self.python_ends = False
        """Whether it is woken because Python ends, and not because nothing is to be kept any more."""

    def end_with_python(self) -> None:
        """Wake the thread because Python ends, and wait for its end."""
        self.python_ends = True
        self.woken.set()
        if self.thread is not None:
            self.thread.join()


class LogKeeping:
    """Keeps Spark's own event log of one application, when Spark has ended. Its errors are logged, and none is raised."""

    def __init__(self, driver: Driver) -> None:
        """Raises as `OwnLog`."""
        self.kept: str | None = None
        """The name of the kept log; None as long as there is none."""
        self.problem: str | None = None
        """Why the log, or a part of it, is not kept: a sentence; None if all is well, and before Spark has ended."""
        self._driver = driver
        self._log = OwnLog(driver)
        self._waiting: _Waiting | None = None
        self._not_at_exit: Callable[[], None] = lambda: None
        tell_if_forked(self)

    def forked(self) -> None:
        """In a forked child, which may end in order: the log is the parent's to keep."""
        self._not_at_exit()

    def end(self, store: LogStore, *, python_ends: bool) -> None:
        """Keep the log in `store`. The recorder was closed.

        It is kept before this returns if Spark has stopped, or if Python ends: then Spark is stopped, unless it goes on without
        this Python. Else it is kept when Spark stops, and at last when Python ends.
        """
        on_error = partial(self._is_not_kept, store)
        if python_ends:
            contain(partial(self._keep_at_exit, store), on_error)
        elif self._driver.has_stopped():
            contain(partial(self._keep, store), on_error)
        else:
            contain(partial(self._wait_on_thread, store, on_error), on_error)

    def cancel(self) -> None:
        """Wait no more for the end of Spark: the application is recorded again, and the end of that recording keeps the log."""
        self._not_at_exit()
        if self._waiting is not None and self._waiting.thread is not None:
            self._waiting.woken.set()
            self._waiting.thread.join()
        self._waiting = self.kept = self.problem = None

    def _wait_on_thread(self, store: LogStore, on_error: OnError) -> None:
        self._waiting = waiting = _Waiting()
        self._not_at_exit = at_exit(waiting.end_with_python, on_error)
        waiting.thread = start_thread("kvwal-recorder-log", partial(self._wait, store, waiting), on_error)

    def _wait(self, store: LogStore, waiting: _Waiting) -> None:
        """Wait for the end of Spark or of Python, then keep the log."""
        try:
            while not self._driver.has_stopped():
                if waiting.woken.wait(POLL_SECONDS):
                    break
            else:
                self._keep(store)
                return
            if waiting.python_ends:
                self._keep_at_exit(store)
        finally:
            self._not_at_exit()  # it refers to Spark's context, which the JVM could not free

    def _keep_at_exit(self, store: LogStore) -> None:
        if self._driver.ends_with_python():
            self._driver.stop()
        self._keep(store)

    def _keep(self, store: LogStore) -> None:
        if self._log.is_remote or store.is_remote:
            _serve_requests_at_exit()
        kept = self._kept_in(store)
        is_there = kept.is_new or not kept.problem
        self.kept = kept.name if is_there else None
        if kept.problem:
            self._note(store, "is kept in part" if is_there else "is not kept", kept.problem)
        else:
            _log.info("The event log %s is kept as %s.", self._log.place, kept.name)

    def _kept_in(self, store: LogStore) -> Keeping:
        log = self._log.finished() if self._driver.has_stopped() else self._log.now()
        identity = identify(log)
        if identity is None:
            return Keeping("", False, "it does not name its application")
        try:
            return _keep_when_free(store, log, identity)
        except StoreClosed:
            if store.open_again is None:
                raise
            return _keep_when_free(store._replace(open=store.open_again), log, identity)

    def _is_not_kept(self, store: LogStore, error: BaseException) -> None:
        is_gone = isinstance(error, FileNotFoundError)
        why = "it was deleted before it could be kept" if is_gone else str(error)
        self._note(store, "is not kept", why, trace_of_bug(error))

    def _note(self, store: LogStore, what: str, why: str, trace: BaseException | None = None) -> None:
        self.problem = f"{why.rstrip('.')}."
        _log.error(
            "The event log %s %s: %s `kvwal record %s %s --keep-logs` keeps it, as long as it is there.",
            self._log.place, what, self.problem, store.location, shlex.quote(self._log.place), exc_info=trace,
        )  # fmt: skip


def _keep_when_free(store: LogStore, log: EventLog, identity: ApplicationIdentity) -> Keeping:
    return retry_on(
        partial(_keep_in, store, log, identity), (StoreLocked,), pause=POLL_SECONDS, longest=_SECONDS_BETWEEN_TRIES,
        within=LOCK_SECONDS,
    )  # fmt: skip


def _keep_in(store: LogStore, log: EventLog, identity: ApplicationIdentity) -> Keeping:
    with store.open() as opened, _alone(opened, identity) as beat:
        return keep_log(contents_of(opened), log, identity, beat)


@contextmanager
def _alone(store: Any, identity: ApplicationIdentity) -> Iterator[Callable[[], None]]:
    """Hold the lease of the application, in a cluster, so that no follower keeps its log meanwhile. A folder has a lock."""
    if not is_cluster(store):
        yield lambda: None
        return
    app = app_prefix(identity.app, identity.attempt)
    with Leases(store.map(BUSINESS), SYSTEM) as leases, leases.hold(app, no_longer_than_a_lease()):
        yield leases.beat


@cache
def _serve_requests_at_exit() -> None:
    """Let requests to a bucket work also while Python ends: fsspec's loop begins a connection with a call on another thread."""
    from fsspec.asyn import get_loop

    get_loop().set_default_executor(ExitExecutor("kvwal-at-exit"))
