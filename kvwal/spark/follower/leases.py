"""Leases of applications: several followers of one store share the work, and each application has one reader at a time.

    !lease/<app>                    Lease: the follower that reads the application's logs
    !follower/<id>                  Beat: a number that the follower changes while it lives

A follower takes a lease by compare-and-set. It beats every `BEAT_SECONDS`, with one put for all of its leases. Another follower
takes a lease over when it has seen the holder's beat unchanged for `LEASE_SECONDS` by its own clock; so no two clocks are ever
compared. A follower that has not beaten for `SAFE_SECONDS` writes nothing more under its leases: see `Leases.check`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import msgspec

from kvwal.errors import Kind, KvwalError
from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock

LEASE_SECONDS = 60.0
SAFE_SECONDS = 20.0
BEAT_SECONDS = 5.0


class LeaseLost(KvwalError):
    """This follower was silent for so long that another may read its applications. Its leases are of no more use."""

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


class Lease(msgspec.Struct, frozen=True, tag_field="kind", tag="lease"):
    """The follower that reads an application."""

    holder: str


class Beat(msgspec.Struct, frozen=True, tag_field="kind", tag="follower"):
    """A sign of life of a follower."""

    number: int


class _Seen(NamedTuple):
    """A beat of another follower (None: it has none), and when it was first seen so."""

    beat: Any
    since: float


class Leases:
    """The leases of one follower. Used by one thread, but for `beat`."""

    def __init__(self, records: LeaseMap, clock: Clock) -> None:
        self.holder = f"{clock.random_bits(64):016x}"
        self.held: set[str] = set()
        self._records = records
        self._clock = clock
        self._number = 0
        self._beaten: float | None = None
        self._beating = Lock()
        self._others: dict[str, _Seen] = {}

    def beat(self) -> None:
        """Show that this follower lives, if that is due. To be called often, by any thread. `LeaseLost` as `check`."""
        with self._beating:
            self.check()
            now = self._clock.elapsed()
            if self._beaten is None or now - self._beaten >= BEAT_SECONDS:
                self._number += 1
                self._records.put(f"!follower/{self.holder}", msgspec.to_builtins(Beat(self._number)))
                self.check()
                self._beaten = now

    def check(self) -> None:
        """`LeaseLost` if another follower may have taken a lease of this one over.

        Another follower waits for `LEASE_SECONDS` after it has seen the last beat. A transaction that begins within
        `SAFE_SECONDS` of the beat has the difference to arrive, which is longer than a client of the cluster tries.
        """
        if self._beaten is not None and self._clock.elapsed() - self._beaten > SAFE_SECONDS:
            raise LeaseLost(
                f"this follower was held up for more than {SAFE_SECONDS:g} s, so others may go on with its"
                f" {len(self.held)} applications.",
                hint="It takes them again when they are free. Look for a machine that stands still, or a slow store.",
            )

    def take(self, app: str) -> bool:
        """Whether this follower holds the lease of an application now. It takes one that is free, or whose holder is gone."""
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
        """Whether a holder has shown no sign of life for `LEASE_SECONDS` under the eyes of this follower."""
        if holder == self.holder:
            return True
        beat, now = self._records.get(f"!follower/{holder}"), self._clock.elapsed()
        seen = self._others.get(holder)
        if seen is None or seen.beat != beat:
            self._others[holder] = _Seen(beat, now)
            return False
        return now - seen.since > LEASE_SECONDS

    def release(self, app: str) -> None:
        """Give a lease back."""
        if app in self.held:
            self.held.remove(app)
            self._records.remove(_lease_key(app), msgspec.to_builtins(Lease(self.holder)))

    def close(self) -> None:
        """Give all leases back, and leave."""
        for app in sorted(self.held):
            self.release(app)
        if self._beaten is not None:
            self._records.delete(f"!follower/{self.holder}")


def _lease_key(app: str) -> str:
    return f"!lease/{app}"
