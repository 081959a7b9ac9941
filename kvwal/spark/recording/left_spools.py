"""Spools that earlier drivers of this machine left for the same cluster: a recorder delivers them beside its own events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import closing
from functools import partial

from kvwal.errors import StoreLocked
from kvwal.ports.boundary import contain, start_thread, trace_of_bug
from kvwal.spark.recording.delivery import PatientRecords
from kvwal.spark.recording.spool import Spool, spools
from kvwal.spark.state.lease import LeaseHeld

_log = logging.getLogger("kvwal.spark")


class _Ended(Exception):
    """The recording has ended. The rest stays in the spool, and the next reader goes on after the last transaction."""


class LeftSpools:
    """Delivers the spools of other applications that were recorded into the same cluster, on a thread of its own.

    Their drivers were killed, or ended while the cluster was away. A spool whose driver still records is locked, and is left
    alone. So is one that names no address of this cluster: clusters may have equal names. There is no thread, and no connection,
    where nothing was left. Each spool is read under the lease of its application.
    """

    def __init__(self, own: Spool, stopping: threading.Event) -> None:
        """`own` is the spool of this recording. When `stopping` is set, the delivery ends with the next piece that it reads."""
        self._stopping = stopping
        self._left = list(_left_beside(own)) if own.addresses() else []
        self._thread: threading.Thread | None = None

    def deliver(self, records: PatientRecords) -> None:
        """Begin to deliver into `records`, which the thread has for itself, and closes at its end."""
        if self._left:
            self._thread = start_thread("kvwal-recorder-left", partial(self._read_all, records), _not_delivered)

    def join(self) -> None:
        """Wait for the end of the thread, once `stopping` is set."""
        if self._thread is not None:
            self._thread.join()

    def _read_all(self, records: PatientRecords) -> None:
        with closing(records):
            for spool in self._left:
                if not self._stopping.is_set():
                    contain(partial(self._read, records, spool), partial(_stays, spool))

    def _read(self, records: PatientRecords, spool: Spool) -> None:
        with spool.locked(), spool.leased(records, self._stopping.wait) as reader:
            for read in spool.read_rest(reader.records, self._go_on):
                _log.info(
                    "The application %s had left %d events in its spool, which were read now.", read.app, read.events
                )

    def _go_on(self, done: int, total: int, app: str) -> None:
        if self._stopping.is_set():
            raise _Ended


def _left_beside(own: Spool) -> Iterable[Spool]:
    for spool in spools(own.root):
        same = (spool.namespace, spool.cluster) == (own.namespace, own.cluster)
        if same and spool.node != own.node and spool.addresses() & own.addresses():
            yield spool


def _stays(spool: Spool, error: BaseException) -> None:
    if not isinstance(error, StoreLocked | LeaseHeld | _Ended):
        _log.warning("%s stays as it is: %s", spool.folder, error, exc_info=trace_of_bug(error))


def _not_delivered(error: BaseException) -> None:
    _log.error("What other drivers left could not be delivered: %s", error, exc_info=trace_of_bug(error))
