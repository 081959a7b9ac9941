"""The lease under which a spool is read into a cluster: no follower reads the application's event log meanwhile.

The reader of a spool holds the spool's lock, so all earlier readers of it have ended. The spool names them (`Spool.holders`), and
their leases are free at once. A follower hands its lease over between two logs; that of a follower that was killed runs out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import NamedTuple

from kvwal.ports.boundary import contain, logged
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.spark.eventlog.runs import RecordMap
from kvwal.spark.leases import LeasedMap, LeasedRecords, Leases
from kvwal.spark.outages import PASSING
from kvwal.spark.recording.spool import Spool
from kvwal.spark.state.lease import LEASE_SECONDS, LeaseHeld, LeaseLost

ASK_SECONDS = 0.5
"""The pause between two looks at a lease that another reader holds."""
_log = logging.getLogger("kvwal.spark")
_not_released = logged("the leases of this reader stay until they run out")


class SpoolReader(NamedTuple):
    """The right to read a spool: the map for its records, and the call that keeps the lease (see `Leases.beat`)."""

    records: RecordMap
    beat: Callable[[], None] = lambda: None


class LeaseWait(NamedTuple):
    """How long a reader waits for a lease: until `pause(seconds)` is true, and then for some `last_seconds` more."""

    pause: Callable[[float], bool]
    last_seconds: float = 0.0


def no_longer_than_a_lease(clock: Clock = SYSTEM) -> LeaseWait:
    """The wait of a command: a lease whose holder was killed runs out in this time."""
    until = clock.elapsed() + 2 * LEASE_SECONDS

    def pause(seconds: float) -> bool:
        sleep(seconds)
        return clock.elapsed() > until

    return LeaseWait(pause)


@contextmanager
def leased(
    spool: Spool, records: LeasedMap, wait: LeaseWait, *, app: str = "", clock: Clock = SYSTEM
) -> Iterator[SpoolReader]:
    """Hold the lease of the application of a spool for the block. The caller holds the lock of the spool.

    `app` is the prefix of the application's keys; by default that of the logs in the spool. `LeaseHeld` if the lease is not to be
    had. In the block, `LeaseLost` if another reader has taken it; a new block goes on with what the store says. The spool of
    a folder needs no lease, since one process writes to its node.
    """
    app = app or spool.application()
    if not app or not spool.addresses():
        yield SpoolReader(records)
        return
    len(records)  # a store that is away would hold up the first beat
    leases = Leases(records, clock, spool.holders())
    spool.name_holder(leases.holder)
    wait_for_lease(leases, app, wait)
    with released_after(leases):  # after an error the next reader of the spool knows that this one has ended
        yield SpoolReader(LeasedRecords(records, leases, app), leases.beat)


@contextmanager
def released_after(leases: Leases) -> Iterator[None]:
    """Give leases back at the end of the block. After an error of the store, which may be away, they run out by themselves."""
    is_unsure = False
    try:
        yield
    except (*PASSING, LeaseLost):
        is_unsure = True
        raise
    finally:
        if not is_unsure:
            contain(leases.close, _not_released)


def wait_for_lease(leases: Leases, app: str, wait: LeaseWait) -> None:
    """Take the lease of an application, and wait for it. `LeaseHeld` if it is not to be had."""
    if leases.request(app):
        return
    _log.info(
        "Another reader holds the lease of %s; the events wait where they are until it hands the lease over.", app
    )
    while not wait.pause(ASK_SECONDS):
        if leases.request(app):
            return
    until = monotonic() + wait.last_seconds
    while not leases.request(app):
        if monotonic() >= until:
            raise LeaseHeld(
                f"another reader holds the lease of the application {app}, and does not hand it over.",
                hint="A follower hands it over after its round; the lease of a killed one runs out in a minute. Then try again.",
            )
        sleep(ASK_SECONDS)
