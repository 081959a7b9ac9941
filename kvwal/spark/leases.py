"""Leases of applications: each application has one reader at a time, a follower of event logs or a reader of a recorder's spool.

    !lease/<app>                    Lease: the reader of the application's log
    !follower/<id>                  Beat: a number that a reader changes while it lives

A reader takes a lease by compare-and-set. It beats every `BEAT_SECONDS`, with one put for all of its leases. Another reader
takes a lease over when it has seen the holder's beat unchanged for `LEASE_SECONDS` by its own clock; so no two clocks are ever
compared. A reader that has not beaten for `SAFE_SECONDS` writes nothing more under its leases: see `Leases.check`.

The reader of a spool asks the holder for the lease (`Lease.wanted`), and a follower hands it over between two logs: a recorder
hears the events first, and hears how the driver ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol

import msgspec

from kvwal.errors import Kind, KvwalError
from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock
from kvwal.spark.eventlog.log_reader import RecordMap

LEASE_SECONDS = 60.0
SAFE_SECONDS = 20.0
BEAT_SECONDS = 5.0


class LeaseLost(KvwalError):
    """The holder of a lease was silent for so long that another has it, or may have it. It has to take the lease again."""

    kind = Kind.RETRY


class LeaseHeld(KvwalError):
    """Another process holds a lease, and did not hand it over in time."""

    kind = Kind.RETRY


class LeaseMap(Protocol):
    """The methods of a map that leases need."""

    def get(self, key: str, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def put(self, key: str, value: Any, /) -> Any:
        """Put a value."""
        ...

    def put_if_absent(self, key: str, value: Any, /) -> bool:
        """Put a value if the key is absent. Returns whether it was put."""
        ...

    def replace(self, key: str, expected: Any, value: Any, /) -> bool:
        """Put a value if the key has the expected one. Returns whether it was put."""
        ...

    def remove(self, key: str, expected: Any, /) -> bool:
        """Delete the key if it has the expected value. Returns whether it was deleted."""
        ...

    def delete(self, key: str, /) -> Any:
        """Delete a key."""
        ...


class LeasedMap(LeaseMap, RecordMap, Protocol):
    """The methods of a map that a reader under leases needs."""


class Lease(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="lease"):
    """The reader of an application, and the one that has asked it for the lease (empty: none has)."""

    holder: str
    wanted: str = ""


class Beat(msgspec.Struct, frozen=True, tag_field="kind", tag="follower"):
    """A sign of life of a reader."""

    number: int


class _Seen(NamedTuple):
    """A beat of another reader (None: it has none), and when it was first seen so."""

    beat: Any
    since: float


class Leases:
    """The leases of one reader. Used by one thread, but for `beat`."""

    def __init__(self, records: LeaseMap, clock: Clock, former: Collection[str] = ()) -> None:
        """`former` are holders that are known to have ended: their leases are free at once."""
        self.holder = f"{clock.random_bits(64):016x}"
        self.held: set[str] = set()
        self._records = records
        self._clock = clock
        self._former = frozenset(former)
        self._number = 0
        self._beaten: float | None = None
        self._beating = Lock()
        self._others: dict[str, _Seen] = {}

    def beat(self) -> None:
        """Show that this reader lives, if that is due. To be called often, by any thread. `LeaseLost` as `check`."""
        with self._beating:
            self.check()
            now = self._clock.elapsed()
            if self._beaten is None or now - self._beaten >= BEAT_SECONDS:
                self._number += 1
                self._records.put(f"!follower/{self.holder}", msgspec.to_builtins(Beat(self._number)))
                self.check()
                self._beaten = now

    def check(self) -> None:
        """`LeaseLost` if another reader may have taken a lease of this one over.

        Another reader waits for `LEASE_SECONDS` after it has seen the last beat. A transaction that begins within
        `SAFE_SECONDS` of the beat has the difference to arrive, which is longer than a client of the cluster tries.
        """
        if self._beaten is not None and self._clock.elapsed() - self._beaten > SAFE_SECONDS:
            raise LeaseLost(
                f"this reader was held up for more than {SAFE_SECONDS:g} s, so others may go on with its"
                f" {len(self.held)} applications.",
                hint="It takes them again when they are free. Look for a machine that stands still, or a slow store.",
            )

    def take(self, app: str) -> bool:
        """Whether this reader holds the lease of an application now. It takes one that is free, or whose holder is gone."""
        self.beat()
        if app in self.held:
            return True
        key, own = _lease_key(app), msgspec.to_builtins(Lease(self.holder))
        value = self._records.get(key)
        if value is None:
            taken = self._records.put_if_absent(key, own)
        elif self._is_gone(msgspec.convert(value, Lease).holder):
            taken = self._records.replace(key, value, own)
        else:
            taken = False
        if taken:
            self.held.add(app)
        return taken

    def _is_gone(self, holder: str) -> bool:
        """Whether a holder has shown no sign of life for `LEASE_SECONDS` under the eyes of this reader."""
        if holder == self.holder or holder in self._former:
            return True
        beat, now = self._records.get(f"!follower/{holder}"), self._clock.elapsed()
        seen = self._others.get(holder)
        if seen is None or seen.beat != beat:
            self._others[holder] = _Seen(beat, now)
            return False
        return now - seen.since > LEASE_SECONDS

    def request(self, app: str) -> bool:
        """Whether this reader holds the lease now; see `take`. If not, the holder is asked for it: call this again."""
        if self.take(app):
            return True
        value = self._records.get(_lease_key(app))
        if value is not None:
            lease = msgspec.convert(value, Lease)
            if self.holder not in (lease.holder, lease.wanted):
                self._records.replace(_lease_key(app), value, msgspec.to_builtins(Lease(lease.holder, self.holder)))
        return False

    def is_wanted(self, app: str) -> bool:
        """Whether another reader has asked for the lease of an application that this one holds, or has it."""
        value = self._records.get(_lease_key(app))
        return value is None or value != msgspec.to_builtins(Lease(self.holder))

    def release(self, app: str) -> None:
        """Give a lease back, or to the reader that has asked for it."""
        if app not in self.held:
            return
        self.held.remove(app)
        key, released = _lease_key(app), False
        while not released:  # it changes when it is asked for
            value = self._records.get(key)
            lease = None if value is None else msgspec.convert(value, Lease)
            if lease is None or lease.holder != self.holder:
                return
            if lease.wanted:
                released = self._records.replace(key, value, msgspec.to_builtins(Lease(lease.wanted)))
            else:
                released = self._records.remove(key, value)

    def close(self) -> None:
        """Give all leases back, and leave, also for the former holders."""
        for app in sorted(self.held):
            self.release(app)
        for holder in sorted({*self._former, *({self.holder} if self._beaten is not None else ())}):
            self._records.delete(f"!follower/{holder}")


class LeasedRecords:
    """The records as a reader under leases writes them."""

    def __init__(self, records: RecordMap, leases: Leases, stop_here: Callable[[], None] = lambda: None) -> None:
        """`stop_here` is called before each transaction, and may raise an error instead of it."""
        self._records = records
        self._leases = leases
        self._stop_here = stop_here
        self.get = records.get

    def put_many(self, entries: dict[str, Any], /) -> None:
        """See `RecordMap.put_many`. `LeaseLost` if the leases may be others' by now."""
        self._stop_here()
        self._leases.beat()
        self._records.put_many(entries)
        self._leases.check()

    def submit_many(self, entries: dict[str, Any], deletes: list[str], /) -> Any:
        """See `RecordMap.submit_many`, and `put_many`. The transaction is durable when this returns."""
        self._stop_here()
        self._leases.beat()
        future = self._records.submit_many(entries, deletes)
        future.result()
        self._leases.check()
        return future

    def __len__(self) -> int:
        """See `RecordMap.__len__`."""
        return len(self._records)


def _lease_key(app: str) -> str:
    return f"!lease/{app}"
