"""Leases of applications: each application has one reader at a time, a follower of event logs or a reader of a recorder's spool.

    !lease/<app>                    AppLease: the reader of the application's log
    !follower/<id>                  the fenced record of a reader (`state.lease`): it changes while the reader lives

A reader writes the records of an application in transactions, each on two conditions: its own record is what it wrote last, and
the application's lease names it. Another reader takes the application over when it has seen the record of the holder unchanged
for `LEASE_SECONDS` by its own clock. The transaction that does so deletes that record. So from then on the store refuses every
write of the former holder, also one that was sent before and arrives late.

The reader of a spool asks the holder for the lease (`AppLease.wanted`), and a follower hands it over between two logs: a recorder
hears the events first, and hears how the driver ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from time import sleep
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from kvwal.ports.boundary import contain, logged
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.ports.locks import Lock
from kvwal.spark.eventlog.runs import RecordMap
from kvwal.spark.outages import PASSING
from kvwal.spark.state.lease import LEASE_SECONDS, FencedRecord, LeaseHeld, LeaseLost
from kvwal.spark.state.records import Silence, StateMap, nonce, plain, unchanged

BEAT_SECONDS = 5.0
ASK_SECONDS = 0.5
"""The pause between two looks at a lease that another reader holds."""
SWEEP_SECONDS = 600.0
"""A reader looks this often for the records of readers that have ended, and deletes those that it saw before."""
_HOLDERS, _LEASES = "!follower/", "!lease/"
_log = logging.getLogger("kvwal.spark")
_not_released = logged("the leases of this reader stay until they run out")


class LeasedMap(StateMap, RecordMap, Protocol):
    """The methods of a map that a reader under leases needs."""

    def __len__(self) -> int:
        """The number of keys."""
        ...


Pause = Callable[[float], bool]
"""Waits some seconds for a lease that another reader holds. Returns whether the reader gives up after one more look at it."""


def no_longer_than_a_lease(clock: Clock = SYSTEM) -> Pause:
    """The pause of a command: a lease whose holder was killed runs out in this time."""
    until = clock.elapsed() + 2 * LEASE_SECONDS

    def pause(seconds: float) -> bool:
        sleep(seconds)
        return clock.elapsed() > until

    return pause


class AppLease(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="lease"):
    """The reader of an application, and the one that has asked it for the lease (empty: none has)."""

    holder: str
    wanted: str = ""


class Leases:
    """The leases of one reader. Used by one thread, but for `beat`.

    The end of its `with` block gives them back. After an error of the store, which may be away, they run out by themselves.
    """

    def __init__(self, records: LeasedMap, clock: Clock, former: Collection[str] = ()) -> None:
        """`former` are holders that are known to have ended: their leases are free at once."""
        self.holder = nonce(clock)
        self._own = FencedRecord(
            records, _HOLDERS + self.holder, f"of reader {self.holder}", LEASE_SECONDS, clock, self.holder
        )
        self._held: dict[str, Any] = {}
        self._records = records
        self._clock = clock
        self._former = frozenset(former)
        self._beaten: float | None = None
        self._swept = clock.elapsed()
        self._beating = Lock()
        self._silence = Silence(clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, (*PASSING, LeaseLost)):
            contain(self.close, _not_released)

    @property
    def held(self) -> set[str]:
        """The applications whose leases this reader holds, as far as it knows."""
        return set(self._held)

    def beat(self) -> None:
        """Show that this reader lives, if that is due. To be called often, by any thread.

        `LeaseLost` if another reader has taken a lease of this one over.
        """
        with self._beating:
            now = self._clock.elapsed()
            if self._beaten is None:
                self._own.take()
            elif now - self._beaten >= BEAT_SECONDS:
                self._own.renew()
            else:
                return
            self._beaten = now
            if now - self._swept >= SWEEP_SECONDS:
                self._swept = now
                self._sweep()

    def commit(self, app: str, items: Mapping[str, Any], deletes: Iterable[str] = ()) -> None:
        """Put and delete in one transaction, under the lease of an application.

        `LeaseLost` if another reader has the application now: the store has refused the transaction, and nothing was written.
        """
        key, gone = _LEASES + app, list(deletes)
        while (lease := self._held.get(app)) is not None:
            if self._own.commit_if({key: lease}, items, gone):
                return
            if (found := self._still_own(key)) is None:
                del self._held[app]
            else:
                self._held[app] = found  # another reader has asked for it
        raise LeaseLost(
            f"another reader has the lease of the application {app}; nothing was written.",
            hint="This reader takes it again when it is free, and goes on from the position in the store.",
        )

    def take(self, app: str) -> bool:
        """Whether this reader holds the lease of an application now. It takes one that is free, or whose holder is gone."""
        self.beat()
        if app in self._held:
            return True
        key, lease = _LEASES + app, plain(AppLease(self.holder))
        found = self._records.get(key)
        conditions, gone = unchanged(key, found), []
        if found is not None and (holder := _lease(found).holder) != self.holder:
            of_holder = _HOLDERS + holder
            record = self._records.get(of_holder)
            if not (holder in self._former or self._is_silent(of_holder, record)):
                return False
            conditions |= unchanged(of_holder, record)
            gone = [] if record is None else [of_holder]
        if not self._own.commit_if(conditions, {key: lease}, gone):
            return False
        self._held[app] = lease
        return True

    def request(self, app: str) -> bool:
        """Whether this reader holds the lease now; see `take`. If not, the holder is asked for it: call this again."""
        if self.take(app):
            return True
        key = _LEASES + app
        found = self._records.get(key)
        lease = None if found is None else _lease(found)
        if lease is not None and self.holder not in (lease.holder, lease.wanted):
            self._records.commit_if({key: found}, {key: plain(AppLease(lease.holder, self.holder))})
        return False

    @contextmanager
    def hold(self, app: str, pause: Pause) -> Iterator[LeasedRecords]:
        """The records of an application under its lease, for the block. After an error the lease stays until `close`.

        `LeaseHeld` if the lease is not to be had.
        """
        self._wait_for(app, pause)
        yield LeasedRecords(self._records, self, app)
        self.release(app)

    def is_wanted(self, app: str) -> bool:
        """Whether another reader has asked for the lease of an application that this one holds, or has it."""
        return bool(self._records.get(_LEASES + app) != plain(AppLease(self.holder)))

    def release(self, app: str) -> None:
        """Give a lease back, or to the reader that has asked for it. `LeaseLost` if another reader has taken it over."""
        if self._held.pop(app, None) is None:
            return
        key = _LEASES + app
        while (found := self._still_own(key)) is not None:  # it changes when it is asked for
            wanted = _lease(found).wanted
            following = {key: plain(AppLease(wanted))} if wanted else {}
            if self._own.commit_if({key: found}, following, [] if wanted else [key]):
                return

    def close(self) -> None:
        """Give all leases back, and leave, also for the former holders."""
        for app in sorted(self._held):
            self.release(app)
        for key in sorted(_HOLDERS + holder for holder in self._former):
            self._delete(key, self._records.get(key))
        self._own.end()

    def _wait_for(self, app: str, pause: Pause) -> None:
        is_mine, gives_up = self.request(app), False
        if not is_mine:
            _log.info(
                "Another reader holds the lease of %s; the events wait where they are until it hands the lease over.",
                app,
            )
        while not is_mine:
            if gives_up:
                raise LeaseHeld(
                    f"another reader holds the lease of the application {app}, and does not hand it over.",
                    hint="A follower hands it over after its round; the lease of a killed one runs out in a minute."
                    " Then try again.",
                )
            gives_up = pause(ASK_SECONDS)
            is_mine = self.request(app)

    def _still_own(self, key: str) -> Any:
        """The value of a lease in the store, None if this reader does not have it any more."""
        found = self._records.get(key)
        return None if found is None or _lease(found).holder != self.holder else found

    def _is_silent(self, of_holder: str, record: Any) -> bool:
        """Whether a holder has ended: its record is gone, or was seen unchanged for `LEASE_SECONDS` by this reader."""
        return record is None or self._silence.is_longer(of_holder, record, LEASE_SECONDS)

    def _sweep(self) -> None:
        """Delete the records of readers that have ended, and leases that name no reader.

        Each delete has the condition that the record is still the one that was seen. A reader that is taken for ended by
        mistake gets `LeaseLost` at its next step, and begins anew.
        """
        records = dict(self._records.scan(_HOLDERS))
        records.pop(_HOLDERS + self.holder, None)
        for key, record in records.items():
            if self._is_silent(key, record):
                self._delete(key, record)
        self._silence.forget_others(records)
        for key, lease in list(self._records.scan(_LEASES)):
            of_holder = _HOLDERS + _lease(lease).holder
            if self._records.get(of_holder) is None:
                self._records.commit_if({key: lease} | unchanged(of_holder, None), {}, [key])

    def _delete(self, key: str, record: Any) -> None:
        if record is not None:
            self._records.commit_if({key: record}, {}, [key])


def _lease(value: Any) -> AppLease:
    return msgspec.convert(value, AppLease)


class LeasedRecords:
    """The records of one application, as the reader that holds its lease writes them."""

    def __init__(
        self, records: RecordMap, leases: Leases, app: str, stop_here: Callable[[], None] = lambda: None
    ) -> None:
        """`stop_here` is called before each transaction, and may raise an error instead of it."""
        self._records = records
        self._leases = leases
        self._app = app
        self._stop_here = stop_here
        self.get, self.scan = records.get, records.scan

    def put_many(self, entries: dict[str, Any], /) -> None:
        """See `RecordMap.put_many`, and `Leases.commit`."""
        self._stop_here()
        self._leases.commit(self._app, entries)

    def submit_many(self, entries: dict[str, Any], deletes: list[str], /) -> Future[None]:
        """See `RecordMap.submit_many`, and `Leases.commit`. The transaction is durable when this returns."""
        self._stop_here()
        self._leases.commit(self._app, entries, deletes)
        done: Future[None] = Future()
        done.set_result(None)
        return done
