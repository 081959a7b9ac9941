"""Fenced lease: of all processes that ask for it one holds it, and the store refuses the writes of every former holder.

    !ledger/lease/<name>     LeaseRecord: the holder, its token, and a text that each of its writes changes

The token grows by one from holder to holder. A write under the lease is one transaction, on the condition that the record is what
this holder wrote last. A process that stands still, is taken for dead and goes on later fails on that condition in the store.

No clocks are compared: another process takes the lease over when it has seen the record unchanged for `seconds` by its own clock.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from kvwal.config import is_seconds
from kvwal.errors import ConfigError
from kvwal.ports.boundary import logged, start_thread
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.spark.outages import PASSING
from kvwal.spark.state.fence import FencedRecord, LeaseHeld, LeaseLost
from kvwal.spark.state.records import PREFIX, Changes, StateMap, nonce

RENEWALS = 4
"""Renewals in the time of a lease."""
_LOOKS = 20
"""Looks of a process that waits, in the time of a lease."""
_LONGEST_LOOK = 1.0
_kept = logged("the lease is not renewed any more, so another process may take it over")


class Lease(FencedRecord):
    """A lease of one name, as one process asks for it and holds it. Any number of threads may use it.

    `with Lease(state, "nightly") as lease:` waits for the lease, renews it on a thread, and releases it at the end. A lease takes
    the place of a map: `Ledger(lease)` and `Progress(lease, name)` commit under it.
    """

    def __init__(self, state: StateMap, name: str, *, seconds: float = 60.0, clock: Clock = SYSTEM) -> None:
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
