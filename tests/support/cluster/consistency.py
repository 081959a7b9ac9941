"""A history checker: clients of a cluster that use every kind of write under faults, and what they may be told.

What it holds a cluster to:
- what was acknowledged is there, until it is overwritten; what raised anything but `CommitUnknown` is not;
- a write of unknown outcome, of every kind, never replaces what was written to its keys afterwards: each client writes on to the
  same keys, until that is acknowledged;
- what was told to a reader, or by a condition, is never taken back: values of a key do not go back, for all clients together;
- of several `put_if_absent` of one key one succeeds, and its value stays;
- each success of a compare-and-set counts once;
- keys that are written together hold the same;
- what moves between keys, under conditions, is neither lost nor doubled.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.cluster.histories import DONE, REFUSED, UNKNOWN
from tests.support.cluster.steps import Steps
from tests.support.polling import POLL_S, until

__all__ = ["REFUSED", "UNKNOWN", "Clients", "ToldThreads", "checked"]

LOOKS = 1200
"""At the end, for transactions of unknown outcome, which members finish within seconds, or later on a machine without time."""
KINDS = (
    *("put", "delete", "replace", "remove", "pop", "put_if_absent", "commit_if"),
    *("get", "count", "put_many", "transaction", "submit_many", "transfer"),
)


class ToldThreads:
    """Threads that go through steps until `end`. `told` counts what their calls were told, by kind and outcome."""

    def __init__(self, steps: Iterable[Iterator[tuple[str, str]]]) -> None:
        """Each item of `steps` is what one thread does: a call at each step, which gives its kind and its outcome."""
        self.told: Counter[tuple[str, str]] = Counter()
        self._stopped = threading.Event()
        self._said = threading.Condition()
        self._threads: list[threading.Thread] = []
        for step in steps:
            self.begin(step)

    def begin(self, steps: Iterator[tuple[str, str]]) -> None:
        """Begin one more thread."""
        self._threads.append(threading.Thread(target=self._run, args=(steps,)))
        self._threads[-1].start()

    def wait_told(self, outcome: str, more: int) -> None:
        """Return when `more` further calls had this outcome."""
        with self._said:
            wanted = self.of(outcome) + more
            self._said.wait_for(lambda: self.of(outcome) >= wanted)

    def of(self, outcome: str) -> int:
        """How many calls had this outcome so far."""
        return sum(times for (_, told), times in self.told.items() if told == outcome)

    def end(self) -> None:
        """Ask for nothing more; return when every answer is there."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, steps: Iterator[tuple[str, str]]) -> None:
        for said in steps:
            with self._said:
                self.told[said] += 1
                self._said.notify_all()
            # Refused a thousand times a second, a client would keep others from what they do.
            if self._stopped.wait(POLL_S if said[1] == REFUSED else 0):
                return


class Clients(ToldThreads):
    """Threads that use one map, each in its own way, until `end`."""

    def __init__(
        self, jobs: Any, *, writers: int = 2, keys: int = 6, readers: int = 2, others: int = 2, pairs: int = 2
    ) -> None:
        """`readers` read what `writers` write; `pairs` clients change two keys as one; of the other three kinds there are
        `others` each."""
        self._steps = Steps(jobs, writers=writers, keys=keys)
        steps = [self._steps.writing(registers) for registers in self._steps.registers]
        steps += [self._steps.reading(jobs.get, f"reader-{number}") for number in range(readers)]
        steps += [self._steps.making(f"maker-{number}") for number in range(others)]
        steps += [self._steps.counting() for _ in range(others)]
        steps += [self._steps.transferring(f"transfer-{number}") for number in range(others)]
        steps += [self._steps.pairing(f"pair-{number}") for number in range(pairs)]
        super().__init__(steps)

    def read_by(self, get: Callable[[str], Any], name: str) -> None:
        """One more reader, that asks in its own way."""
        self.begin(self._steps.reading(get, name))

    def wait(self, more: int) -> None:
        """Return when `more` further puts and deletes were acknowledged, and one further call of every kind."""
        with self._said:
            before = [self._acknowledged(kind) for kind in KINDS]
            wanted = self._acknowledged("put", "delete") + more
            self._said.wait_for(
                lambda: (
                    self._acknowledged("put", "delete") >= wanted
                    and all(self._acknowledged(kind) > had for kind, had in zip(KINDS, before, strict=True))
                )
            )

    def _acknowledged(self, *kinds: str) -> int:
        return sum(self.told[kind, DONE] + self.told[kind, "True"] for kind in kinds)

    def half_done(self, final: dict[str, Any]) -> bool:
        """Whether a transaction is there in part."""
        return self._steps.half_done(final)

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong with what was told, and with what is there in the end."""
        return self._steps.judge(final)


def _at_the_end(jobs: Any, clients: Clients) -> dict[str, Any]:
    """The map when the members have finished what a fault left half done, or after so many looks that they never will."""
    looks = 0

    def look() -> dict[str, Any] | None:
        nonlocal looks
        looks += 1
        final = dict(jobs.items())
        return final if looks == LOOKS or not clients.half_done(final) else None

    return until(look)


@contextmanager
def checked(connect: Any, name: str, **shape: int) -> Iterator[Clients]:
    """Clients of the map `name` meanwhile, and a judgement when all is over; `connect` makes a store of kvwal."""
    with connect as store:
        clients = Clients(store.map(name), **shape)
        try:
            yield clients
        finally:
            clients.end()
        final = _at_the_end(store.map(name), clients)
    print(f"{name}: {dict(sorted(clients.told.items()))}")
    assert not (wrong := clients.judge(final)), "\n".join(wrong[:20])
