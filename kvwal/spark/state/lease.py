"""Fenced lease: of all processes that ask for it one holds it, and the store refuses the writes of every former holder.

    !ledger/lease/<name>     LeaseRecord: the holder, its token, and a text that each of its writes changes

The token grows by one from holder to holder. A write under the lease is one transaction, on the condition that the record is what
this holder wrote last, and it changes the record. So the store refuses a write that arrives late, and one of a process that stood
still, was taken for dead and goes on.

No clocks are compared: another process takes the lease over when it has seen the record unchanged for `seconds` by its own clock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from kvwal.config import is_seconds
from kvwal.errors import ConfigError, Kind, KvwalError
from kvwal.ports.boundary import logged, start_thread
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.spark.outages import PASSING
from kvwal.spark.state.records import PREFIX, Changes, Items, Silence, StateMap, exchange, nonce, read_record, unchanged

LEASE_SECONDS = 60.0
"""A holder that has shown no life for so long is taken for ended."""
RENEWALS = 4
"""Renewals in the time of a lease."""
_LOOKS = 20
"""Looks of a process that waits, in the time of a lease."""
_LONGEST_LOOK = 1.0
_kept = logged("the lease is not renewed any more, so another process may take it over")


class LeaseLost(KvwalError):
    """The holder of a lease was silent for so long that another process has taken it. It has to take the lease again."""

    kind = Kind.RETRY


class LeaseHeld(KvwalError):
    """Another process holds a lease, and did not hand it over in time."""

    kind = Kind.RETRY


class LeaseRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="lease"):
    """A lease as it stands in the map. No holder: it is free. `write` is another text after each write under the lease."""

    holder: str
    token: int
    write: str
    seconds: float


class FencedRecord:
    """The record at one key of a map, as one process asks for it and holds it. Any number of threads may use it."""

    def __init__(self, state: StateMap, key: str, name: str, seconds: float, clock: Clock, holder: str) -> None:
        """`name` is that of messages. Another process takes the record over when it has not changed for `seconds`."""
        self.name = name
        self.holder = holder
        self._key = key
        self._state = state
        self._seconds = float(seconds)
        self._clock = clock
        self._own: LeaseRecord | None = None
        self._last_token = 0
        self._silence = Silence(clock)
        self._using = threading.RLock()

    @property
    def token(self) -> int:
        """The token of this holder, 0 if it holds nothing. It is greater than that of every holder before."""
        own = self._own
        return 0 if own is None else own.token

    def take(self) -> bool:
        """Whether this process holds the lease now. It takes one that is free, or whose holder showed no life for its seconds."""
        with self._using:
            found = self._read()
            if found is None or found.holder != self.holder:
                self._own = None
                if found is not None and found.holder and not self._silence.is_longer(self._key, found, found.seconds):
                    return False
                token = (self._last_token if found is None else found.token) + 1
                taken = LeaseRecord(self.holder, token, nonce(self._clock), self._seconds)
                if not exchange(self._state, self._key, found, taken):
                    return False
                found = taken
            self._keep(found)
            return True

    def renew(self) -> None:
        """Show that this holder lives. `LeaseLost` if another has taken the lease over."""
        self.commit_if({}, {})

    def release(self) -> None:
        """Let the next process have the lease at once. Does nothing if this one does not hold it."""
        with self._using:
            if self._own is not None:
                with suppress(LeaseLost):
                    self._write("", {}, {}, ())
                self._own = None

    def end(self) -> None:
        """Delete the record, if this process still holds it: nobody will ask for it again."""
        with self._using:
            own, self._own = self._own, None
            if own is not None:
                self._state.commit_if(unchanged(self._key, own), {}, [self._key])

    def get(self, key: Any, default: Any = None, /) -> Any:
        """The value of a key of the map. A read has no fence: what is decided on it is checked when it is committed."""
        return self._state.get(key, default)

    def commit_if(self, conditions: Mapping[Any, Any], items: Items, deletes: Iterable[Any] = (), /) -> bool:
        """As `kvwal.Map.commit_if`, on the further condition that this process holds the lease, and renews it.

        `LeaseLost` if another process has taken the lease over: the store has refused the transaction, and nothing was written.
        """
        with self._using:
            return self._write(self.holder, conditions, items, deletes)

    def _write(self, holder: str, conditions: Mapping[Any, Any], items: Items, deletes: Iterable[Any]) -> bool:
        """One transaction of this holder. `holder` is the next one: this one, or none."""
        while (own := self._own) is not None:
            following = LeaseRecord(holder, own.token, nonce(self._clock), own.seconds)
            if exchange(self._state, self._key, own, following, items, deletes, conditions):
                self._keep(following)
                return True
            found = self._read()
            if found == own:
                return False
            if found is None or (found.holder, found.token) != (own.holder, own.token):
                self._own = None
                raise self._lost(found)
            self._keep(found)  # a write of this holder, whose outcome was unknown, was done
        raise self._lost(self._read())

    def _read(self) -> LeaseRecord | None:
        return read_record(self._state, self._key, LeaseRecord)

    def _keep(self, record: LeaseRecord) -> None:
        self._own, self._last_token = record, record.token

    def _lost(self, found: LeaseRecord | None) -> LeaseLost:
        if not self._last_token:
            return LeaseLost(
                f"this process does not hold the lease {self.name}; nothing was written.", hint="Call acquire() first."
            )
        now = "was deleted" if found is None else f"has token {found.token}"
        return LeaseLost(
            f"the lease {self.name} {now}, and this process had token {self._last_token}: the store refused its write, and"
            " nothing was written.",
            hint="It was silent for too long, or has released the lease. Acquire it again, and read what the next holder did.",
        )


class Lease(FencedRecord):
    """A lease of one name, as one process asks for it and holds it. Any number of threads may use it.

    `with Lease(state, "nightly") as lease:` waits for the lease, renews it on a thread, and releases it at the end. A lease takes
    the place of a map: `Ledger(lease)` and `Progress(lease, name)` commit under it.
    """

    def __init__(self, state: StateMap, name: str, *, seconds: float = LEASE_SECONDS, clock: Clock = SYSTEM) -> None:
        """`seconds` is how long the holder may show no sign of life before another process takes the lease over."""
        if not is_seconds(seconds):
            raise ConfigError(f"lease {name}: seconds={seconds!r} must be a number of seconds, above 0 and finite.")
        super().__init__(state, f"{PREFIX}lease/{name}", name, seconds, clock, nonce(clock))
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None

    def acquire(self, timeout: float | None = None) -> Self:
        """Wait until this process holds the lease. `LeaseHeld` after `timeout` seconds (None: never)."""
        until = None if timeout is None else self._clock.elapsed() + timeout
        pause = min(_LONGEST_LOOK, self._seconds / _LOOKS)
        while not self.take():
            if until is not None and self._clock.elapsed() >= until:
                raise LeaseHeld(
                    f"another process holds the lease {self.name}, and did not release it in {timeout:g} s.",
                    hint="The lease of a process that was killed runs out by itself. Then try again.",
                )
            self._stop.wait(pause)
        return self

    def transaction(self) -> Changes:
        """`with lease.transaction() as t: t["a"] = 1; del t["b"]`: committed at the end of the block, under the lease.

        The end raises `LeaseLost` if another process has taken the lease over: nothing was written then.
        """
        return Changes(self._commit)

    def _commit(self, changes: Changes) -> None:
        self.commit_if({}, changes.puts, changes.deletes)

    def __enter__(self) -> Self:
        self.acquire()
        self._stop.clear()
        self._renewer = start_thread("kvwal-lease", self._renew_until_stopped, _kept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the renewals, and release the lease."""
        self._stop.set()
        if self._renewer is not None:
            self._renewer.join()
        self._stop.clear()
        self.release()

    def _renew_until_stopped(self) -> None:
        while not self._stop.wait(self._seconds / RENEWALS):
            try:
                self.renew()
            except PASSING:  # the store is away, and may be back in time
                continue
            except LeaseLost:  # the next write says so
                return
