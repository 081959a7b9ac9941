"""A client that writes to a cluster without a pause, and what its cluster may hold afterwards."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

from hazelcast.errors import HazelcastError, IndeterminateOperationStateError

KEYS = 300
IN_FLIGHT = 60
DELETES = 5
"""Every so many-th change of a key is a delete."""


class Writers:
    """Keeps changes in flight, one of a key at a time: puts of a number that grows, and deletes.

    `acknowledged` has the last number of each key, `puts` each key and number that was put and acknowledged.
    `gap` is the longest time in which nothing was acknowledged, `errors` the names of what was refused or of unknown outcome.
    """

    def __init__(self, client: Any, name: str = "load", *, begin: int = 1, keys: int = KEYS) -> None:
        self.acknowledged: dict[str, int] = {}
        self.puts: set[tuple[str, int]] = set()
        self.tried: dict[str, list[int]] = {}
        self.errors: list[str] = []
        self.gap = 0.0
        self.last = begin
        self._map = client.get_map(name)
        self._numbers = itertools.count(begin)
        self._idle: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._order = itertools.cycle([f"key-{number}" for number in range(keys)])
        self._busy: set[str] = set()
        self._room = threading.Semaphore(IN_FLIGHT)
        self._stopped = threading.Event()
        self._reached = threading.Condition()
        self._at = time.monotonic()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._room.acquire()
            if self._stopped.is_set():
                return
            key = next(key for key in self._order if key not in self._busy)
            number = next(self._numbers)
            self._busy.add(key)
            self.tried.setdefault(key, []).append(number)
            change = self._map.delete(key) if is_delete(number) else self._map.set(key, number)
            change.add_done_callback(lambda done, key=key, number=number: self._done(key, number, done))

    def _done(self, key: str, number: int, done: Any) -> None:
        if done.exception() is None:
            now = time.monotonic()
            self.gap = max(self.gap, now - self._at)
            self._at = now
            with self._reached:
                self.acknowledged[key] = number
                if not is_delete(number):
                    self.puts.add((key, number))
                self.last = max(self.last, number)
                self._reached.notify_all()
        else:
            self.errors.append(type(done.exception()).__name__)
        self._busy.discard(key)
        self._room.release()

    def wait(self, more: int) -> None:
        """Until the cluster acknowledged about so many more."""
        with self._reached:
            until = self.last + more
            self._reached.wait_for(lambda: self.last >= until)

    def end(self) -> None:
        """Write nothing more; return when every answer is there."""
        self._stopped.set()
        self._thread.join()
        for _ in range(IN_FLIGHT - 1):
            self._room.acquire()

    def wrong(self, found: dict[str, int]) -> dict[str, tuple[int, int | None]]:
        """Keys of which `found` has less than what was acknowledged, or a delete that is undone: acknowledged, found."""
        return {
            key: (last, found.get(key)) for key, last in self.acknowledged.items() if not self._may(key, last, found)
        }

    def stale(self, key: str, last: int, number: int | None) -> bool:
        """Whether somebody who asked for `key` after its change `last` was acknowledged may not be told `number`."""
        return not self._may(key, last, {} if number is None else {key: number})

    def _may(self, key: str, last: int, found: dict[str, int]) -> bool:
        number = found.get(key)
        if number is not None:
            return number >= last and not is_delete(number)
        return any(is_delete(tried) for tried in self.tried[key] if tried >= last)


class Connected:
    """What `kvwal.connect` gives, as the client of `Writers`: each change on a thread of its own."""

    def __init__(self, store: Any, pool: Executor) -> None:
        self._store = store
        self._pool = pool

    def get_map(self, name: str) -> Connected:
        """The map as `Writers` uses one."""
        jobs = self._store.map(name)
        self.set = partial(self._pool.submit, jobs.put)
        self.delete = partial(self._pool.submit, jobs.delete)
        return self


class Reader:
    """A client that reads without a pause what `writers` write. `stale` is what was older than what was acknowledged before."""

    def __init__(self, client: Any, writers: Writers, name: str = "load") -> None:
        self.stale: list[tuple[str, int, int | None]] = []
        self.reads = 0
        self.errors = 0
        self._map = client.get_map(name).blocking()
        self._writers = writers
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            for key, last in list(self._writers.acknowledged.items()):
                if self._stopped.is_set():
                    return
                self._read(key, last)

    def _read(self, key: str, last: int) -> None:
        try:
            found = self._map.get(key)
        except HazelcastError:
            self.errors += 1
            return
        self.reads += 1
        if self._writers.stale(key, last, found):
            self.stale.append((key, last, found))

    def end(self) -> None:
        """Read nothing more."""
        self._stopped.set()
        self._thread.join()


def is_delete(number: int) -> bool:
    """Whether the change of this number is a delete."""
    return number % DELETES == 0


def surely(change: Callable[[], object]) -> None:
    """Make a change, again if its outcome is not known, as it is when a member goes meanwhile."""
    while True:
        try:
            change()
            return
        except IndeterminateOperationStateError:
            continue
