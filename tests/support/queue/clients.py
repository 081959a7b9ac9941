"""A history checker for queues of a cluster: producers and takers under faults, and what they may be told.

What it holds a cluster to:
- an item whose put was acknowledged is taken once, or there in the end; of one whose put was refused nothing is ever seen;
- no item is given to a taker while another taker has it, and none after a commit of it was acknowledged;
- items come in the order of their puts: all items of a producer that are there in the end, and those of a queue with one producer
  and one taker at any time;
- a block is whole: what it put elsewhere is there if, and only if, its items are gone.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

from kvwal.errors import CommitUnknown, KvwalError
from tests.support.cluster.consistency import ToldThreads
from tests.support.cluster.histories import DONE, REFUSED, UNKNOWN
from tests.support.polling import until
from tests.support.queue.blocks import RolledBackError

T = TypeVar("T")
WORK, MOVED, LINE = "todo", "moved", "line"
MOST, MOST_OF_LINE = 2, 5
"""Items of one plain take."""
EACH = ("put", "take", "block", "roll back", "line put", "line take")


class Items:
    """What became of the items, by the name of each: the puts and takes as clients were told of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.puts: dict[str, str] = {}
        self.commits: Counter[str] = Counter()
        self.maybe: set[str] = set()
        self.held: set[str] = set()
        self.wrong: list[str] = []

    def put(self, item: str, outcome: str) -> None:
        """What a producer was told of a put."""
        with self.lock:
            self.puts[item] = outcome

    def given(self, items: list[str]) -> None:
        """A taker got items."""
        with self.lock:
            for item in items:
                if self.puts.get(item) == REFUSED:
                    self.wrong.append(f"{item} was refused, and was given")
                if item in self.held:
                    self.wrong.append(f"{item} was given to two takers at once")
                if self.commits[item]:
                    self.wrong.append(f"{item} was given after its commit")
                self.held.add(item)

    def released(self, items: list[str]) -> None:
        """A taker ends its block: others may get the items before it hears how that went."""
        with self.lock:
            self.held.difference_update(items)

    def ended(self, items: list[str], outcome: str) -> None:
        """What a taker was told of the commit of its items."""
        with self.lock:
            for item in items:
                self.held.discard(item)
                if outcome == DONE:
                    self.commits[item] += 1
                elif outcome == UNKNOWN:
                    self.maybe.add(item)


class QueueClients(ToldThreads):
    """Threads that use the queues of one business, each in its own way, until `end`."""

    def __init__(self, business: Any, *, producers: int = 2, takers: int = 2, blocks: int = 2) -> None:
        self.items = Items()
        self._todo, self._moved, self._line = (business.queue(name) for name in (WORK, MOVED, LINE))
        self._business = business
        steps = [self._putting(f"p{number}") for number in range(producers)]
        steps += [self._taking() for _ in range(takers)]
        steps += [self._moving(rolls_back=False) for _ in range(blocks)]
        steps += [self._moving(rolls_back=True), self._lining_up(), self._following()]
        super().__init__(steps)

    def wait(self, more: int) -> None:
        """Return when `more` further puts were acknowledged, and one further call of every kind."""
        with self._said:
            before = [self.told[kind, DONE] for kind in EACH]
            wanted = self.told["put", DONE] + more
            self._said.wait_for(
                lambda: (
                    self.told["put", DONE] >= wanted
                    and all(self.told[kind, DONE] > had for kind, had in zip(EACH, before, strict=True))
                )
            )

    def _putting(self, name: str, kind: str = "put") -> Iterator[tuple[str, str]]:
        target = self._line if kind == "line put" else self._todo
        for number in count():
            item = f"{name}-{number:06}"
            outcome = _outcome(lambda item=item: target.put(item))  # type: ignore[misc]
            self.items.put(item, outcome)
            yield kind, outcome

    def _lining_up(self) -> Iterator[tuple[str, str]]:
        return self._putting("line", "line put")

    def _taking(self) -> Iterator[tuple[str, str]]:
        while True:
            got: list[str] = []
            outcome = _outcome(lambda got=got: got.extend(self._todo.take_many(MOST, timeout=1)))  # type: ignore[misc]
            self.items.given(got)
            self.items.ended(got, DONE)
            yield "take", outcome

    def _following(self) -> Iterator[tuple[str, str]]:
        """One taker of the queue with one producer: always in order."""
        last = ""
        while True:
            got: list[str] = []
            outcome = _outcome(lambda got=got: got.extend(self._line.take_many(MOST_OF_LINE, timeout=1)))  # type: ignore[misc]
            if got != sorted(got) or (got and got[0] <= last):
                self.items.wrong.append(f"{got} came after {last}")
            last = got[-1] if got else last
            self.items.given(got)
            self.items.ended(got, DONE)
            yield "line take", outcome

    def _moving(self, *, rolls_back: bool) -> Iterator[tuple[str, str]]:
        while True:
            got: list[str] = []
            outcome = _outcome(lambda got=got: self._move(got, rolls_back=rolls_back))  # type: ignore[misc]
            self.items.ended(got, REFUSED if rolls_back else outcome)
            yield "roll back" if rolls_back else "block", outcome

    def _move(self, got: list[str], *, rolls_back: bool) -> None:
        try:
            with self._business.transaction() as t:
                taken = t.queue(WORK).take_many(3, timeout=1)
                got.extend(taken)
                self.items.given(taken)
                t.queue(MOVED).put_many(taken)
                self.items.released(taken)
                if rolls_back:
                    raise RolledBackError
        except RolledBackError:
            pass

    def judge(self, left: list[str], moved: list[str], line: list[str]) -> list[str]:
        """What is wrong, with what is in the queues in the end."""
        items, wrong = self.items, list(self.items.wrong)
        there = set(left) | set(line)
        for name, found in ((WORK, left), (LINE, line)):
            wrong += [f"{item} is in {name} twice" for item, times in Counter(found).items() if times > 1]
            for producer in {item.split("-")[0] for item in found}:
                own = [item for item in found if item.startswith(f"{producer}-")]
                wrong += [] if own == sorted(own) else [f"the items of {producer} in {name} are not in order"]
        wrong += [f"{item} was moved twice" for item, times in Counter(moved).items() if times > 1]
        wrong += [f"{item} was moved, and is there" for item in there.intersection(moved)]
        seen = there.union(moved, items.commits, items.maybe)
        for kind, most in (
            ("put", MOST * self.told["take", UNKNOWN]),
            ("line put", MOST_OF_LINE * self.told["line take", UNKNOWN]),
        ):
            of_line = kind == "line put"
            lost = [
                i
                for i, told in items.puts.items()
                if told == DONE and i.startswith("line") == of_line and i not in seen
            ]
            if len(lost) > most:  # a take of unknown outcome may have taken items
                wrong.append(f"{len(lost)} items were acknowledged, and are lost: {lost[:10]}; {most} may be gone")
        for item, outcome in items.puts.items():
            if outcome == REFUSED and item in there:
                wrong.append(f"{item} was refused, and is there")
            if items.commits[item] > 1 or (items.commits[item] and item in there):
                wrong.append(
                    f"{item} was taken {items.commits[item]} times, and is {'there' if item in there else 'gone'}"
                )
        return wrong


def _outcome(call: Callable[[], Any]) -> str:
    try:
        call()
    except CommitUnknown:
        return UNKNOWN
    except (KvwalError, queue.Empty):
        return REFUSED
    return DONE


def _all(target: Any) -> list[str]:
    """All items of a queue, taken one after the other. After the end of all members, nobody gets an item for a while."""
    found: list[str] = []
    while until(lambda: _answered(lambda: len(target))):
        found += until(lambda: _answered(lambda: target.take_many(1000, timeout=1)))
    return found


def _answered(call: Callable[[], T]) -> T | None:
    """The answer of a call; None if it was refused. One of unknown outcome fails the test."""
    try:
        return call()
    except CommitUnknown:
        raise
    except KvwalError:
        return None


@contextmanager
def checked_queues(connect: Any, name: str, **shape: int) -> Iterator[QueueClients]:
    """Clients of the queues of the business `name` meanwhile, and a judgement when all is over."""
    with connect as store:
        business = store.business(name)
        clients = QueueClients(business, **shape)
        try:
            yield clients
        finally:
            clients.end()
        for each in (WORK, MOVED, LINE):
            until(lambda each=each: _answered(lambda: business.queue(each).in_flight) == 0 or None)  # type: ignore[misc]
        left, moved, line = (_all(business.queue(each)) for each in (WORK, MOVED, LINE))
    print(f"{name}: {dict(sorted(clients.told.items()))}; {len(left)} left, {len(moved)} moved")
    assert not (wrong := clients.judge(left, moved, line)), "\n".join(wrong[:20])
