"""A history checker: clients of a cluster that use every kind of write under faults, and what they may be told.

What it holds a cluster to:
- what was acknowledged is there, until it is overwritten; what raised anything but `CommitUnknown` is not;
- what was told to a reader is never taken back: reads of a key do not go back, for all readers together;
- of several `put_if_absent` of one key one succeeds, and its value stays;
- each success of a compare-and-set counts once;
- keys that are written together hold the same;
- what moves between keys, under conditions, is neither lost nor doubled.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from kvwal.errors import CommitUnknown, KvwalError
from tests.support.cluster.transfers import Accounts
from tests.support.polling import POLL_S, until

DONE, OPEN, UNKNOWN, REFUSED = "done", "open", "unknown", "refused"
LOOKS = 1200
"""At the end, for transactions of unknown outcome, which members finish within seconds, or later on a machine without time."""
KINDS = ("put", "delete", "replace", "remove", "get", "put_if_absent", "count", "put_many", "transaction", "transfer")


class Register:
    """One key, changed by one writer and read by anybody. The n-th change puts the number n, or deletes.

    A change that failed has to be the last, so that it can be seen. One of unknown outcome may take effect at any time, but once
    it was read it stays.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.wrong: list[str] = []
        self.floor = 0
        """The last change that somebody was told of: the writer by an acknowledgement, or a reader."""
        self._lock = threading.Lock()
        self._deletes = [True]
        self._outcomes = [DONE]
        self._told: set[int] = {0}

    def begin(self, *, deletes: bool) -> int:
        """A change is about to be asked for; its number."""
        with self._lock:
            self._deletes.append(deletes)
            self._outcomes.append(OPEN)
            return len(self._outcomes) - 1

    def end(self, number: int, outcome: str) -> None:
        """What became of a change."""
        with self._lock:
            self._outcomes[number] = outcome
            if outcome == DONE:
                self.floor = max(self.floor, number)

    def read(self, get: Callable[[str], int | None]) -> None:
        """Somebody reads."""
        floor = self.floor
        found = get(self.key)
        with self._lock:
            number = self._place(floor, found)
            if number is None:
                self.wrong.append(f"{self.key}: {found} was read after {floor} was told, of {self._tail(floor)}")
            else:
                self._told.add(number)
                self.floor = max(self.floor, number)

    def _place(self, floor: int, found: int | None) -> int | None:
        """The change that the answer shows: the earliest that it can be, None if it can be none."""
        if found is not None:
            fits = floor <= found < len(self._outcomes) and not self._deletes[found]
            return found if fits and self._outcomes[found] != REFUSED else None
        for number in range(floor, len(self._outcomes)):
            if self._deletes[number] and self._outcomes[number] != REFUSED:
                return number
        return None

    def _tail(self, floor: int) -> list[tuple[int, str, str]]:
        numbers = range(floor, len(self._outcomes))
        return [(number, "delete" if self._deletes[number] else "put", self._outcomes[number]) for number in numbers][
            :8
        ]

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong, when all is over."""
        self.read(final.get)
        refused = [number for number in self._told if self._outcomes[number] == REFUSED]
        return self.wrong + [f"{self.key}: change {number} was refused, and was read" for number in refused]


class Once:
    """One key that several want to make."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._lock = threading.Lock()
        self._outcomes: dict[str, str | bool] = {}

    def end(self, who: str, outcome: str | bool) -> None:
        """What became of one's attempt: whether it made it, or how it failed."""
        with self._lock:
            self._outcomes[who] = outcome

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong, when all is over."""
        winners = [who for who, outcome in self._outcomes.items() if outcome is True]
        may = winners or [*(who for who, outcome in self._outcomes.items() if outcome == UNKNOWN), None]
        found = final.get(self.key)
        if len(winners) > 1 or found not in may:
            return [f"{self.key}: {found} is there, after {self._outcomes}"]
        if found is None and False in self._outcomes.values():
            return [f"{self.key}: somebody was told that it is there, and it is not: {self._outcomes}"]
        return []


class Tally:
    """A number that several count up, each by a comparison."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._lock = threading.Lock()
        self._done: Counter[int] = Counter()
        self._unknown = 0

    def end(self, seen: int, outcome: str | bool) -> None:
        """What became of an attempt to make `seen + 1` of `seen`."""
        with self._lock:
            self._done[seen] += outcome is True
            self._unknown += outcome == UNKNOWN

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong, when all is over."""
        done, found = sum(self._done.values()), final.get(self.key, 0)
        twice = [seen for seen, times in self._done.items() if times > 1]
        if twice or not done <= found <= done + self._unknown:
            return [f"{self.key}: {found} is there, after {done} successes and {self._unknown} unknown; twice: {twice}"]
        return []


class Pair:
    """Two keys that one writer changes as one, until that fails: what is of unknown outcome may be finished at any time."""

    def __init__(self, key: str) -> None:
        self.one = Register(f"{key}-one")
        self.other = Register(f"{key}-other")

    def apart(self, final: dict[str, Any]) -> list[str]:
        """Whether the keys hold different values, in a sentence or none."""
        one, other = final.get(self.one.key), final.get(self.other.key)
        return [] if one == other else [f"{self.one.key} is {one}, and {self.other.key} is {other}"]

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong, when all is over."""
        return self.apart(final) + self.one.judge(final) + self.other.judge(final)


class Clients:
    """Threads that use one map, each in its own way, until `end`. `told` counts what they were told, by kind and outcome."""

    def __init__(
        self, jobs: Any, *, writers: int = 2, keys: int = 6, readers: int = 2, others: int = 2, pairs: int = 2
    ) -> None:
        """`readers` read what `writers` write; `pairs` clients change two keys as one; of the other three kinds there are
        `others` each."""
        self.told: Counter[tuple[str, str]] = Counter()
        self._jobs = jobs
        self._stopped = threading.Event()
        self._said = threading.Condition()
        self._registers = [[Register(f"register-{writer}-{key}") for key in range(keys)] for writer in range(writers)]
        self._onces: list[Once] = []
        self._tally = Tally("tally")
        self._pairs: list[Pair] = []
        self._accounts = Accounts(jobs)
        steps = [self._writing(registers) for registers in self._registers]
        steps += [self._reading(jobs.get, f"reader-{number}") for number in range(readers)]
        steps += [self._making(f"maker-{number}") for number in range(others)]
        steps += [self._counting() for _ in range(others)]
        steps += [self._transferring(f"transfer-{number}") for number in range(others)]
        steps += [self._pairing(f"pair-{number}") for number in range(pairs)]
        self._threads = [threading.Thread(target=self._run, args=(step,)) for step in steps]
        for thread in self._threads:
            thread.start()

    def read_by(self, get: Callable[[str], Any], name: str) -> None:
        """One more reader, that asks in its own way."""
        self._threads.append(threading.Thread(target=self._run, args=(self._reading(get, name),)))
        self._threads[-1].start()

    def _run(self, steps: Iterator[tuple[str, str]]) -> None:
        for said in steps:
            with self._said:
                self.told[said] += 1
                self._said.notify_all()
            # Refused a thousand times a second, a client would keep others from what they do.
            if self._stopped.wait(POLL_S if said[1] == REFUSED else 0):
                return

    def wait(self, more: int) -> None:
        """Until so many more puts and deletes were acknowledged, and of every kind of call at least one more."""
        with self._said:
            before = [self._acknowledged(kind) for kind in KINDS]
            wanted = self._acknowledged("put", "delete") + more
            self._said.wait_for(
                lambda: (
                    self._acknowledged("put", "delete") >= wanted
                    and all(self._acknowledged(kind) > had for kind, had in zip(KINDS, before, strict=True))
                )
            )

    def wait_told(self, outcome: str, more: int) -> None:
        """Until so many more calls had this outcome."""
        with self._said:
            wanted = self.of(outcome) + more
            self._said.wait_for(lambda: self.of(outcome) >= wanted)

    def of(self, outcome: str) -> int:
        """How many calls had this outcome so far."""
        return sum(times for (_, told), times in self.told.items() if told == outcome)

    def _acknowledged(self, *kinds: str) -> int:
        return sum(self.told[kind, DONE] + self.told[kind, "True"] for kind in kinds)

    def end(self) -> None:
        """Ask for nothing more; return when every answer is there."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def half_done(self, final: dict[str, Any]) -> bool:
        """Whether a transaction is there in part."""
        return any(pair.apart(final) for pair in self._pairs) or bool(self._accounts.judge(final))

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong with what was told, and with what is there in the end."""
        with self._said:
            judged: list[Any] = [register for registers in self._registers for register in registers]
            judged += [*self._onces, self._tally, *self._pairs, self._accounts]
        return [wrong for each in judged for wrong in each.judge(final)]

    def _writing(self, registers: list[Register]) -> Iterator[tuple[str, str]]:
        chance = random.Random(registers[0].key)
        count = len(registers)
        known: dict[str, int] = {}
        while True:
            place = chance.randrange(count)  # behind are those of which a change failed
            register = registers[place]
            last = known.get(register.key, 0)
            kind = chance.choice(("put", "put", "delete", "replace", "remove") if last else ("put",))
            number = register.begin(deletes=kind in ("delete", "remove"))
            outcome = _outcome(_change(self._jobs, kind, register.key, last, number))
            if outcome is False:
                register.wrong.append(f"{register.key}: {kind} {number} did not find {last}")
            outcome = {True: DONE, False: REFUSED}.get(outcome, outcome)  # type: ignore[call-overload]
            register.end(number, outcome)
            if outcome == DONE:
                known[register.key] = number if kind in ("put", "replace") else 0
            else:
                registers.append(register)
                registers[place] = Register(f"{register.key}+")
            yield kind, outcome

    def _reading(self, get: Callable[[str], Any], name: str) -> Iterator[tuple[str, str]]:
        chance = random.Random(name)
        while True:
            register = chance.choice(chance.choice(self._registers))
            yield "get", str(_outcome(lambda register=register: register.read(get)))

    def _making(self, who: str) -> Iterator[tuple[str, str]]:
        number = 0
        while True:
            with self._said:
                if number == len(self._onces):
                    self._onces.append(Once(f"once-{number}"))
                once = self._onces[number]
            outcome = _outcome(lambda once=once: self._jobs.put_if_absent(once.key, who))
            once.end(who, outcome)
            number += 1
            yield "put_if_absent", str(outcome)

    def _counting(self) -> Iterator[tuple[str, str]]:
        key = self._tally.key
        while True:
            seen = [0]
            outcome = _outcome(lambda seen=seen: _look(self._jobs, key, seen))
            if outcome == DONE:
                outcome = _outcome(partial(_count, self._jobs, key, seen[0]))
                self._tally.end(seen[0], outcome)
            yield "count", str(outcome)

    def _transferring(self, name: str) -> Iterator[tuple[str, str]]:
        chance = random.Random(name)
        while True:
            yield "transfer", str(_outcome(lambda: self._accounts.transfer(chance)))

    def _pairing(self, name: str) -> Iterator[tuple[str, str]]:
        chance = random.Random(name)
        outcome = ""
        while True:
            if outcome != DONE:
                pair = Pair(f"{name}-{len(self._pairs)}")
                self._pairs.append(pair)
            for register in (pair.one, pair.other):
                number = register.begin(deletes=False)
            kind = chance.choice(("put_many", "transaction"))
            outcome = str(_outcome(partial(_together, self._jobs, kind, pair, number)))
            for register in (pair.one, pair.other):
                register.end(number, outcome)
            yield kind, outcome


def _change(jobs: Any, kind: str, key: str, last: int | None, number: int) -> Callable[[], Any]:
    if kind == "put":
        return lambda: jobs.put(key, number) and None
    if kind == "delete":
        return lambda: jobs.delete(key) and None
    if kind == "replace":
        return lambda: jobs.replace(key, last, number)
    return lambda: jobs.remove(key, last)


def _look(jobs: Any, key: str, seen: list[int]) -> None:
    seen[0] = jobs.get(key, 0)


def _count(jobs: Any, key: str, seen: int) -> bool:
    found: bool = jobs.replace(key, seen, seen + 1) if seen else jobs.put_if_absent(key, 1)
    return found


def _together(jobs: Any, kind: str, pair: Pair, number: int) -> None:
    if kind == "put_many":
        jobs.put_many({pair.one.key: number, pair.other.key: number})
        return
    with jobs.transaction() as both:
        both[pair.one.key] = number
        both[pair.other.key] = number


def _outcome(call: Callable[[], Any]) -> str | bool:
    """What a call came to: a condition's answer, or how it ended."""
    try:
        answer = call()
    except CommitUnknown:
        return UNKNOWN
    except KvwalError:
        return REFUSED
    return answer if isinstance(answer, bool) else DONE


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
