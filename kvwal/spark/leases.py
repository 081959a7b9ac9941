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

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

import msgspec

from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock
from kvwal.spark.eventlog.runs import RecordMap
from kvwal.spark.state.lease import LEASE_SECONDS, FencedRecord, LeaseLost
from kvwal.spark.state.records import nonce
from kvwal.structures.map.changes import ABSENT

BEAT_SECONDS = 5.0
SWEEP_SECONDS = 600.0
"""A reader looks this often for the records of readers that have ended, and deletes those that it saw before."""
_HOLDERS, _LEASES = "!follower/", "!lease/"


class LeaseMap(Protocol):
    """The methods of a map that leases need."""

    def get(self, key: Any, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def scan(self, prefix: str, /) -> Iterable[tuple[Any, Any]]:
        """The keys that begin so, and their values."""
        ...

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        """See `kvwal.Map.commit_if`."""
        ...


class LeasedMap(LeaseMap, RecordMap, Protocol):
    """The methods of a map that a reader under leases needs."""


class AppLease(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="lease"):
    """The reader of an application, and the one that has asked it for the lease (empty: none has)."""

    holder: str
    wanted: str = ""


class _Seen(NamedTuple):
    """The record of another reader, and when it was first seen so."""

    record: Any
    since: float


class Leases:
    """The leases of one reader. Used by one thread, but for `beat`."""

    def __init__(self, records: LeaseMap, clock: Clock, former: Collection[str] = ()) -> None:
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
        self._others: dict[str, _Seen] = {}

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
            found = self._records.get(key)
            if found is None or msgspec.convert(found, AppLease).holder != self.holder:
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
        key, lease = _LEASES + app, msgspec.to_builtins(AppLease(self.holder))
        found = self._records.get(key)
        conditions, gone = {key: ABSENT if found is None else found}, []
        if found is not None and (holder := msgspec.convert(found, AppLease).holder) != self.holder:
            of_holder = _HOLDERS + holder
            record = self._records.get(of_holder)
            if not (holder in self._former or self._is_silent(holder, record)):
                return False
            conditions[of_holder] = ABSENT if record is None else record
            gone = [] if record is None else [of_holder]
        if not self._own.commit_if(conditions, {key: lease}, gone):
            return False
        self._held[app] = lease
        return True

    def _is_silent(self, holder: str, record: Any) -> bool:
        """Whether a holder has ended: its record is gone, or was seen unchanged for `LEASE_SECONDS` by this reader."""
        now, seen = self._clock.elapsed(), self._others.get(holder)
        if record is None:
            return True
        if seen is None or seen.record != record:
            self._others[holder] = _Seen(record, now)
            return False
        return now - seen.since > LEASE_SECONDS

    def request(self, app: str) -> bool:
        """Whether this reader holds the lease now; see `take`. If not, the holder is asked for it: call this again."""
        if self.take(app):
            return True
        found = self._records.get(_LEASES + app)
        if found is not None:
            lease = msgspec.convert(found, AppLease)
            if self.holder not in (lease.holder, lease.wanted):
                wanted = msgspec.to_builtins(AppLease(lease.holder, self.holder))
                self._records.commit_if({_LEASES + app: found}, {_LEASES + app: wanted})
        return False

    def is_wanted(self, app: str) -> bool:
        """Whether another reader has asked for the lease of an application that this one holds, or has it."""
        value = self._records.get(_LEASES + app)
        return value is None or bool(value != msgspec.to_builtins(AppLease(self.holder)))

    def release(self, app: str) -> None:
        """Give a lease back, or to the reader that has asked for it. `LeaseLost` if another reader has taken it over."""
        if self._held.pop(app, None) is None:
            return
        key, released = _LEASES + app, False
        while not released:  # it changes when it is asked for
            found = self._records.get(key)
            lease = None if found is None else msgspec.convert(found, AppLease)
            if lease is None or lease.holder != self.holder:
                return
            following = {key: msgspec.to_builtins(AppLease(lease.wanted))} if lease.wanted else {}
            released = self._own.commit_if({key: found}, following, [] if following else [key])

    def close(self) -> None:
        """Give all leases back, and leave, also for the former holders."""
        for app in sorted(self._held):
            self.release(app)
        for holder in sorted(self._former):
            self._delete(_HOLDERS + holder, self._records.get(_HOLDERS + holder))
        self._own.end()

    def _sweep(self) -> None:
        """Delete the records of readers that have ended, and leases that name no reader.

        Each delete has the condition that the record is still the one that was seen. A reader that is taken for ended by
        mistake gets `LeaseLost` at its next step, and begins anew.
        """
        records = dict(self._records.scan(_HOLDERS))
        for key, record in records.items():
            holder = key.removeprefix(_HOLDERS)
            if holder != self.holder and self._is_silent(holder, record):
                self._delete(key, record)
        self._others = {holder: seen for holder, seen in self._others.items() if _HOLDERS + holder in records}
        for key, lease in list(self._records.scan(_LEASES)):
            of_holder = _HOLDERS + msgspec.convert(lease, AppLease).holder
            if self._records.get(of_holder) is None:
                self._records.commit_if({key: lease, of_holder: ABSENT}, {}, [key])

    def _delete(self, key: str, record: Any) -> None:
        if record is not None:
            self._records.commit_if({key: record}, {}, [key])


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

    def __len__(self) -> int:
        """See `RecordMap.__len__`."""
        return len(self._records)
