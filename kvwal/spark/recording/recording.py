"""One recording of an application, from the listener in Spark to the records in the store."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from kvwal.ports.boundary import contain, contain_each, logged, trace_of_bug
from kvwal.spark.eventlog.log_reader import LogReader
from kvwal.spark.index import mark_of
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.recording.delivery import POLL_SECONDS, DeliveryStatus, PatientRecords
from kvwal.spark.recording.driver import Driver
from kvwal.spark.recording.endings import Ending
from kvwal.spark.recording.left_spools import LeftSpools
from kvwal.spark.recording.spool import LAST_ROLL, POSITION, SpoolReader, add_roll, delete_read_rolls
from kvwal.spark.recording.target import LogStore, Target
from kvwal.spark.state.lease import LeaseLost

MOST_SPOOLED = 1 << 30
"""Bytes of events that wait in the spool of a recording. Spark writes no more events then."""
METRICS_SECONDS = 2.0
"""Between two puts of the record of an SQL execution whose stages run. It is large, and tasks may end all the time."""
HAND_OVER_SECONDS = 15.0
"""Longest wait, at the end of a recording, for a follower that is to hand the application over: some rounds."""
_log = logging.getLogger("kvwal.spark")
_not_merged = logged("the nodes of finished applications could not be merged; `kvwal record ROOT` tries again")


class Recording:
    """A recording in progress: its target, the event log that Spark writes, and the delivery of its events.

    `follow` runs on a thread of its own; only that thread waits for the store. Memory is that of one reader, also while the store
    is away: the events wait in the spool.
    """

    def __init__(self, driver: Driver, target: Target, *, strict: bool) -> None:
        """With `strict`, the errors of a store that cannot be reached now are raised."""
        self.failure: BaseException | None = None
        self.status = DeliveryStatus()
        self.is_full = False
        """Whether the spool has reached `MOST_SPOOLED`: later events of the application are not recorded."""
        self._target = target
        self._spool = target.spool
        self._identity = driver.identity
        self._stopping = threading.Event()
        self._gives_up: float | None = None
        self._records = PatientRecords(target.open, self.status, self._stopping, self._bound_spool)
        self._left = LeftSpools(target.spool, self._stopping)
        self._is_left_begun = False
        self._reader: LogReader | None = None
        with ExitStack() as undo:
            undo.callback(self._records.close)
            if strict:
                self._records.check()
            self._spool.make()
            self._listener = driver.attach(self._spool.folder)
            undo.pop_all()
        self._log = self._listener.log

    @property
    def events(self) -> int:
        """Events that the store has."""
        return self._reader.projection.position.events if self._reader is not None else 0

    @property
    def logs(self) -> LogStore:
        """The store for Spark's own event log, after `close`."""
        return self._target.logs

    def spooled_bytes(self) -> int:
        """Bytes of events in the spool of this recording."""
        return self._log.size()

    def follow(self) -> None:
        """Read the log until `close`, and once more afterwards. Runs on the recorder's thread."""
        contain(self._deliver, self.stopped)
        while not self._stopping.wait(POLL_SECONDS):  # after a failure: Spark goes on writing
            self._bound_spool()

    def discard(self) -> None:
        """Undo what making this recording did in Spark and in the spool: its thread could not be started."""
        self._records.close()
        self._listener.discard()

    def _deliver(self) -> None:
        app, is_delivered = app_prefix(self._identity.app, self._identity.attempt), False
        with closing(self._records):
            mark = mark_of(self._records, self._target.node)  # a lease would make the map look as if it had records
            while not is_delivered:
                try:
                    with self._spool.leased(self._records, self._pause, app=app) as reader:
                        self._read(reader, mark)
                    is_delivered = True
                except LeaseLost as error:
                    _log.warning(
                        "The recorder takes the lease of the application again, and reads its position: %s", error
                    )

    def _pause(self, seconds: float) -> bool:
        """Wait for the lease of the application. Returns whether the recording has ended `HAND_OVER_SECONDS` ago."""
        self._bound_spool()
        if not self._stopping.wait(seconds):
            return False
        if self._gives_up is None:
            self._gives_up = time.monotonic() + HAND_OVER_SECONDS
        else:
            time.sleep(seconds)
        return time.monotonic() >= self._gives_up

    def _read(self, spool: SpoolReader, mark: dict[str, Any]) -> None:
        """Read the log until `close`, under the lease."""
        self._spool.read_rest(spool.records, recording=self._log)
        self._spool.begin(spool.records, self._log, self._identity, mark)
        self._reader = LogReader(spool.records, self._log, self._identity, position=POSITION)
        self._deliver_left()
        with closing(self._reader):
            stopping, told = False, 0.0
            while not stopping:
                stopping = self._stopping.wait(POLL_SECONDS)
                spool.beat()
                self._reader.puts_metrics = stopping or time.monotonic() - told >= METRICS_SECONDS
                told = time.monotonic() if self._reader.puts_metrics else told
                self._reader.advance()
                delete_read_rolls(self._log, self._reader.projection.position)
                self._bound_spool()

    def _deliver_left(self) -> None:
        """Deliver what other drivers left, now that the store has answered. Its outages do not count as this recording's."""
        if not self._is_left_begun:
            self._is_left_begun = True
            records = PatientRecords(self._target.open, DeliveryStatus(), self._stopping, watch=lambda: None)
            self._left.deliver(records)

    def _bound_spool(self) -> None:
        """Let Spark write no more events if too many wait for the store."""
        if not self.is_full and self.spooled_bytes() > MOST_SPOOLED:
            self.is_full = True
            self._listener.halt()
            _log.error(
                "The spool %s has reached its bound of %d MiB; the events of the application from now on are not recorded."
                " Bring the store back, and read Spark's own event log, if there is one, with `kvwal record`.",
                self._log.path, MOST_SPOOLED >> 20,
            )  # fmt: skip

    def stopped(self, error: BaseException) -> None:
        """Keep the first error as the failure: it is why events stay in the spool."""
        self.failure = self.failure or error
        _log.warning("Recording stops: %s", error, exc_info=trace_of_bug(error))

    def close(self, thread: threading.Thread, ending: Ending) -> None:
        """End the log, the thread and the store, then clear the spool."""
        # Each step runs, also after an error in the step before, and no error of a step replaces the application's exception.
        steps: list[Callable[[], object]] = [
            partial(self._end_log, ending),
            self._stopping.set,
            thread.join,
            self._left.join,
            self._target.close,
            self._clear_spool,
            self._target.unlock,
        ]
        contain_each(steps, self.stopped)
        contain(self._target.tidy, _not_merged)

    def _end_log(self, ending: Ending) -> None:
        """Let Spark write its queued events, then write how the recording ended."""
        dropped = self._listener.detach()
        add_roll(self._log, LAST_ROLL, [_detached(ending, dropped)])

    def _clear_spool(self) -> None:
        """Delete the log if all its events are durable. Otherwise the log stays, and a message names it."""
        problem = self.failure or (self._reader.problem if self._reader is not None else "")
        if not problem:
            self._spool.remove(self._log)
        else:
            _log.error(
                "Recording stopped: %s Events since then are in %s; `kvwal record %s` reads them.",
                problem, self._log.path, self._target.location,
            )  # fmt: skip


def _detached(ending: Ending, dropped: int) -> dict[str, Any]:
    """The event that ends a recording."""
    return {
        "Event": "kvwal.Detached",
        "Timestamp": time.time_ns() // 1_000_000,
        "Status": ending.status,
        "Exit Code": ending.exit_code,
        "Error": ending.message(),
        "Stack": ending.stack(),
        "Dropped": dropped,
    }
