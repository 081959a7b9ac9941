"""Fenced record: the record of a lease, and transactions on the condition that it is what its holder wrote last.

The record changes with each write of its holder. So the store refuses a write of a former holder, and one that arrives late.
No clocks are compared: another process takes the lease over when it has seen the record unchanged for `seconds` by its own clock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kvwal.errors import Kind, KvwalError
from kvwal.ports.clock import Clock
from kvwal.spark.state.records import Items, StateMap, exchange, nonce
from kvwal.structures.map.changes import ABSENT


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
        self._seen: tuple[LeaseRecord, float] | None = None
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
            if found is not None and found.holder == self.holder:
                self._keep(found)
                return True
            self._own = None
            if found is not None and found.holder and not self._is_silent(found):
                return False
            token = (self._last_token if found is None else found.token) + 1
            return self._put(found, LeaseRecord(self.holder, token, nonce(self._clock), self._seconds))

    def renew(self) -> None:
        """Show that this holder lives. `LeaseLost` if another has taken the lease over."""
        self.commit_if({}, {})

    def release(self) -> None:
        """Let the next process have the lease at once. Does nothing if this one does not hold it."""
        with self._using:
            while (own := self._own) is not None:
                free = LeaseRecord("", own.token, nonce(self._clock), own.seconds)
                is_free = exchange(self._state, self._key, {self._key: _plain(own)}, _plain(free), {})
                found = None if is_free else self._read()
                if found is None or found == own or (found.holder, found.token) != (own.holder, own.token):
                    self._own = None
                else:
                    self._keep(found)  # a renewal of this holder, whose outcome was unknown, was done

    def end(self) -> None:
        """Delete the record, if this process still holds it: nobody will ask for it again."""
        with self._using:
            own, self._own = self._own, None
            if own is not None:
                self._state.commit_if({self._key: _plain(own)}, {}, [self._key])

    def get(self, key: Any, default: Any = None, /) -> Any:
        """The value of a key of the map. A read has no fence: what is decided on it is checked when it is committed."""
        return self._state.get(key, default)

    def commit_if(self, conditions: Mapping[Any, Any], items: Items, deletes: Iterable[Any] = (), /) -> bool:
        """As `kvwal.Map.commit_if`, on the further condition that this process holds the lease, and renews it.

        `LeaseLost` if another process has taken the lease over: the store has refused the transaction, and nothing was written.
        """
        with self._using:
            while True:
                own = self._own
                if own is None:
                    raise self._lost(self._read())
                renewed = LeaseRecord(own.holder, own.token, nonce(self._clock), own.seconds)
                wanted = {**conditions, self._key: _plain(own)}
                if exchange(self._state, self._key, wanted, _plain(renewed), items, deletes):
                    self._keep(renewed)
                    return True
                found = self._read()
                if found == own:
                    return False
                if found is None or (found.holder, found.token) != (own.holder, own.token):
                    self._own = None
                    raise self._lost(found)
                self._keep(found)  # a write of this holder, whose outcome was unknown, was done

    def _read(self) -> LeaseRecord | None:
        value = self._state.get(self._key)
        return None if value is None else msgspec.convert(value, LeaseRecord)

    def _put(self, found: LeaseRecord | None, record: LeaseRecord) -> bool:
        expected = ABSENT if found is None else _plain(found)
        taken = exchange(self._state, self._key, {self._key: expected}, _plain(record), {})
        if taken:
            self._keep(record)
        return taken

    def _keep(self, record: LeaseRecord) -> None:
        self._own, self._last_token = record, record.token

    def _is_silent(self, record: LeaseRecord) -> bool:
        """Whether this process has seen the record unchanged for longer than its holder promised to change it."""
        now = self._clock.elapsed()
        if self._seen is None or self._seen[0] != record:
            self._seen = record, now
            return False
        return now - self._seen[1] > record.seconds

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


def _plain(record: LeaseRecord) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain
