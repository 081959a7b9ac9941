"""The service of a follower: rounds until it is told to stop, with waits between them and for a store that is away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial

from kvwal.errors import ArchiveError, ContentFailed
from kvwal.ports.boundary import contain, logged, start_thread
from kvwal.ports.clock import Clock
from kvwal.ports.retries import retry_on
from kvwal.spark.eventlog.folders import EventLogsUnreachable
from kvwal.spark.eventlog.listing import LogFolder
from kvwal.spark.eventlog.log_reader import BUSINESS, MapStore
from kvwal.spark.follower.follower import Follower, Stopped
from kvwal.spark.follower.quiet_logs import QuietLogs
from kvwal.spark.follower.status import FollowerStatus
from kvwal.spark.index import complete_index, node_of_mark
from kvwal.spark.kept.contents import contents_of
from kvwal.spark.leases import BEAT_SECONDS
from kvwal.spark.outages import PASSING
from kvwal.spark.state.lease import LeaseLost

EVERY_SECONDS = 5.0
WAITED_FOR = (*PASSING, LeaseLost, ContentFailed, ArchiveError)
"""Errors after which the follower begins anew. After an unknown commit the position in the store tells."""
_not_left = logged("the leases of the follower stay until they run out")
_not_beating = logged("the leases of the follower cannot be kept: its next transaction is refused, and it begins anew")

OpenStore = Callable[[], AbstractContextManager[MapStore]]


class FollowerService:
    """A follower as a service. `stop` ends it after the current transaction."""

    def __init__(
        self,
        open_store: OpenStore,
        folders: Sequence[LogFolder],
        status: FollowerStatus,
        clock: Clock,
        stop: threading.Event,
        every: float = EVERY_SECONDS,
        *,
        keep_logs: bool = False,
    ) -> None:
        """`every`: seconds between two rounds, and between two tries to reach a store that is away. `keep_logs`: logs that have
        ended, or are quiet, are kept in the contents of the store.
        """
        self._open_store = open_store
        self._folders = folders
        self._status = status
        self._clock = clock
        self._stop = stop
        self._every = every
        self._keep_logs = keep_logs

    def run(self) -> None:
        """Follow until `stop`. `ConfigError` at once for a folder that is not there, or that may not be read.

        Errors of the store are raised, too, but for those that pass (`WAITED_FOR`).
        """
        for folder in self._folders:
            self._check(folder)
        wait_for_store = self._status.wait_for_store
        if not self._stop.is_set():
            with suppress(*WAITED_FOR):  # the store was away when the follower was stopped
                retry_on(self._follow, WAITED_FOR, pause=self._every, until=self._stop, failed=wait_for_store)

    def _check(self, folder: LogFolder) -> None:
        try:
            folder.list()
        except EventLogsUnreachable as error:  # it may answer later: the rounds go on trying
            self._status.trouble(folder.url, error)

    def _follow(self) -> None:
        with self._open_store() as store:
            records = store.map(BUSINESS)
            complete_index(records, node_of_mark(store))
            quiet_logs = QuietLogs(contents_of(store), self._clock) if self._keep_logs else None
            follower = Follower(records, self._folders, self._status, self._clock, self._stop.is_set, quiet_logs)
            ended = threading.Event()
            beating = start_thread("kvwal-follower-beat", partial(_beat, follower, ended), _not_beating)
            try:
                while not self._stop.is_set():
                    follower.round()
                    self._stop.wait(self._every)
            except Stopped:
                return
            finally:
                ended.set()
                beating.join()
                contain(follower.close, _not_left)


def _beat(follower: Follower, ended: threading.Event) -> None:
    """Keep the leases while a round waits for slow storage."""
    while not ended.wait(BEAT_SECONDS):
        follower.beat()
