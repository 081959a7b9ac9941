"""Delivery of records into a store that may be away: a call is repeated until the store answers, or the recording ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from kvwal.ports.retries import retry_on
from kvwal.spark.leases import LeasedMap
from kvwal.spark.outages import PASSING

T = TypeVar("T")
OpenRecords = Callable[[], AbstractContextManager[LeasedMap]]
"""Opens the map of the records. It is called again after each error that passes."""

POLL_SECONDS = 0.25
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 5.0
_log = logging.getLogger("kvwal.spark")


class DeliveryStatus:
    """What a delivery has met so far. The delivering thread writes it; other threads read it."""

    def __init__(self) -> None:
        self.troubles = 0
        """Calls that the store did not answer, or refused for a while."""
        self.waiting: str | None = None
        """Why the delivery cannot go on at the moment: a sentence."""

    def trouble(self, error: BaseException) -> None:
        """A call failed and will be repeated. The log says it once for each outage."""
        self.troubles += 1
        if self.waiting is None:
            _log.warning("The recorder waits for its store; the events stay in the spool meanwhile: %s", error)
        self.waiting = str(error)

    def answered(self) -> None:
        """A call succeeded."""
        if self.waiting is not None:
            self.waiting = None
            _log.warning("The store answers the recorder again.")


class PatientRecords:
    """The map of the records, as the reader of a recording uses it: see `LeasedMap`. Used by one thread.

    A call that fails with an error of `PASSING` is repeated, on a new connection if the recorder made the connection. The waits
    between two tries grow to `LONGEST_WAIT_SECONDS`. When `stopping` is set, the try under way is the last one, or there is one
    more try if the delivery waits; the error of the last try is raised. Other errors are raised at once.

    A transaction of unknown outcome is repeated as it is. Its records are whole values, and no other process writes them: in a
    folder because of its lock, in a cluster because of the conditions of the lease. So doing it twice does no harm, and
    a first try that arrives late is refused.
    """

    def __init__(
        self, open_records: OpenRecords, status: DeliveryStatus, stopping: threading.Event, watch: Callable[[], None]
    ) -> None:
        """`watch` is called every `POLL_SECONDS` while a call waits for its next try."""
        self._open_records = open_records
        self._status = status
        self._stopping = stopping
        self._watch = watch
        self._open = ExitStack()
        self._records: LeasedMap | None = None

    def check(self) -> None:
        """Reach the store, in one try. Raises the errors of opening it, and of a read."""
        len(self._opened())

    def get(self, key: str, default: Any = None, /) -> Any:
        """See `RecordMap.get`."""
        return self._tries(lambda records: records.get(key, default))

    def __len__(self) -> int:
        """See `LeasedMap.__len__`."""
        return self._tries(len)

    def put_many(self, entries: dict[str, Any], /) -> None:
        """See `RecordMap.put_many`."""
        self._tries(lambda records: records.put_many(entries))

    def submit_many(self, entries: dict[str, Any], deletes: list[str], /) -> Future[None]:
        """See `RecordMap.submit_many`. The transaction is durable when this returns."""
        self._tries(lambda records: records.submit_many(entries, deletes).result())
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def scan(self, prefix: str, /) -> list[tuple[str, Any]]:
        """See `RecordMap.scan`."""
        return self._tries(lambda records: list(records.scan(prefix)))

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        """See `StateMap.commit_if`. False also if an earlier try had an unknown outcome, and succeeded: a read tells."""
        pairs, gone = dict(items), list(deletes)
        return self._tries(lambda records: records.commit_if(conditions, pairs, gone))

    def close(self) -> None:
        """Close the connection, if the recorder made it."""
        self._records = None
        self._open.close()

    def _opened(self) -> LeasedMap:
        if self._records is None:
            self._records = self._open.enter_context(self._open_records())
        return self._records

    def _tries(self, call: Callable[[LeasedMap], T]) -> T:
        return retry_on(
            partial(self._try, call), PASSING, pause=FIRST_WAIT_SECONDS, longest=LONGEST_WAIT_SECONDS,
            until=self._stopping, failed=self._status.trouble, sleep=self._wait,
        )  # fmt: skip

    def _try(self, call: Callable[[LeasedMap], T]) -> T:
        try:
            answer = call(self._opened())
        except PASSING:
            self.close()
            raise
        self._status.answered()
        return answer

    def _wait(self, seconds: float) -> None:
        """Wait for the next try; the end of the recording ends the wait."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and not self._stopping.wait(min(left, POLL_SECONDS)):
            self._watch()
