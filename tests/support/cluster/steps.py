"""Steps of clients of one map. After a change of unknown outcome a client changes the same keys until that is acknowledged."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kvwal import ABSENT
from kvwal.errors import CommitUnknown, KvwalError
from tests.support.cluster.histories import DONE, FAILED, REFUSED, UNKNOWN, Once, Pair, Register, Tally
from tests.support.cluster.transfers import Accounts

ON_ABSENT = ("put_if_absent", "commit_if")
ON_VALUE = ("delete", "delete", "replace", "remove", "pop", "commit_if")
TOGETHER = ("put_many", "transaction", "submit_many", "commit_if")
EACH = "put_each"
Answer = tuple[bool, Callable[[int | None], bool]]
"""Whether a change was done, and which values the key may have had before, by what its caller was told."""


class Steps:
    """What clients of the map do, each in an iterator of its own, and the histories of its keys.

    A step is a call; the iterator gives its kind and its outcome.
    """

    def __init__(self, jobs: Any, *, writers: int, keys: int) -> None:
        self.registers = [[Register(f"register-{writer}-{key}") for key in range(keys)] for writer in range(writers)]
        self._jobs = jobs
        self._lock = threading.Lock()
        self._onces: list[Once] = []
        self._tally = Tally("tally")
        self._pairs: list[Pair] = []
        self._accounts = Accounts(jobs)

    def half_done(self, final: dict[str, Any]) -> bool:
        """Whether a transaction is there in part."""
        return any(pair.apart(final) for pair in self._pairs) or bool(self._accounts.judge(final))

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong with what was told, and with what is there in the end, when no client makes a step any more."""
        judged: list[Any] = [register for registers in self.registers for register in registers]
        judged += [*self._onces, self._tally, *self._pairs, self._accounts]
        return [wrong for each in judged for wrong in each.judge(final)]

    def writing(self, registers: list[Register]) -> Iterator[tuple[str, str]]:
        """Change keys, each in every way."""
        chance = random.Random(registers[0].key)
        count = len(registers)
        place, outcome = 0, ""
        while True:
            if outcome != UNKNOWN:
                place = chance.randrange(count)  # the outcome of the last call is known
            register = registers[place]
            kind, outcome = _write(self._jobs, register, chance)
            if register.is_over:
                registers.append(register)
                registers[place] = Register(f"{register.key}+")
            yield kind, outcome

    def reading(self, get: Callable[[str], Any], name: str) -> Iterator[tuple[str, str]]:
        """Read what writers change."""
        chance = random.Random(name)
        while True:
            register = chance.choice(chance.choice(self.registers))
            yield "get", str(_outcome(lambda register=register: register.read(get)))

    def making(self, who: str) -> Iterator[tuple[str, str]]:
        """Make keys that others want to make, too."""
        number = attempt = 0
        while True:
            with self._lock:
                if number == len(self._onces):
                    self._onces.append(Once(f"once-{number}"))
                once = self._onces[number]
            name = f"{who}-{attempt}"
            outcome = _outcome(partial(self._jobs.put_if_absent, once.key, name))
            once.end(name, outcome)
            if outcome == UNKNOWN or (attempt and outcome == REFUSED):
                attempt += 1
            else:
                number, attempt = number + 1, 0
            yield "put_if_absent", str(outcome)

    def counting(self) -> Iterator[tuple[str, str]]:
        """Count up, as others do."""
        tally = self._tally
        while True:
            seen: list[int] = []
            outcome = _outcome(lambda seen=seen: seen.append(tally.look(self._jobs.get)))
            if outcome == DONE:
                outcome = _outcome(partial(_count, self._jobs, tally.key, seen[0]))
                tally.end(seen[0], outcome)
            yield "count", str(outcome)

    def transferring(self, name: str) -> Iterator[tuple[str, str]]:
        """Move amounts between accounts, as others do."""
        chance = random.Random(name)
        while True:
            yield "transfer", str(_outcome(lambda: self._accounts.transfer(chance)))

    def pairing(self, name: str) -> Iterator[tuple[str, str]]:
        """Change two keys as one."""
        chance = random.Random(name)
        while True:
            pair = Pair(f"{name}-{len(self._pairs)}")
            self._pairs.append(pair)
            while not pair.is_over:
                kind = chance.choice((*TOGETHER, EACH) if pair.had_unknown else TOGETHER)
                yield kind, (_write_each if kind == EACH else _write_both)(self._jobs, pair, kind, chance)


def _write(jobs: Any, register: Register, chance: random.Random) -> tuple[str, str]:
    """Make a change of one key, on a condition of a value that it may have; how, and what became of it."""
    expected = chance.choice(register.possible())
    kind = chance.choice(("put", "put", "put", "put", *(ON_ABSENT if expected is None else ON_VALUE)))
    floor = register.floor
    number = register.begin(deletes=kind in ("delete", "remove", "pop"))
    outcome, fits = _changed(partial(_change, jobs, kind, register.key, expected, number))
    if fits is not None:
        register.told(floor, number, fits, f"{kind} on {expected} was told {outcome}")
    register.end(number, outcome)
    return kind, outcome


def _change(jobs: Any, kind: str, key: str, expected: int | None, number: int) -> Answer:
    if kind == "pop":
        popped = jobs.pop(key, None)
        return popped is not None, lambda value: value == popped
    if kind in ("put", "delete"):
        jobs.put(key, number) if kind == "put" else jobs.delete(key)
        return True, lambda value: True
    if kind == "replace":
        held = jobs.replace(key, expected, number)
    elif kind == "remove":
        held = jobs.remove(key, expected)
    elif kind == "put_if_absent":
        held = jobs.put_if_absent(key, number)
    else:
        held = jobs.commit_if(_condition(key, expected), {key: number})
    return held, lambda value: (value == expected) is held


def _write_both(jobs: Any, pair: Pair, kind: str, chance: random.Random) -> str:
    """Change both keys as one; what became of it."""
    expected = chance.choice(pair.one.possible())
    floor = pair.one.floor
    number = pair.begin(deletes=kind == "submit_many")
    outcome, fits = _changed(partial(_together, jobs, kind, pair, expected, number))
    if fits is not None:
        pair.one.told(floor, number, fits, f"{kind} on {expected} was told {outcome}")
    pair.end(number, outcome)
    return outcome


def _together(jobs: Any, kind: str, pair: Pair, expected: int | None, number: int) -> Answer:
    both = {pair.one.key: number, pair.other.key: number}
    if kind == "commit_if":
        held = jobs.commit_if(_condition(pair.one.key, expected), both)
        return held, lambda value: (value == expected) is held
    if kind == "put_many":
        jobs.put_many(both)
    elif kind == "submit_many":
        jobs.submit_many((), deletes=both).result()
    else:
        with jobs.transaction() as changes:
            for key in both:
                changes[key] = number
    return True, lambda value: True


def _write_each(jobs: Any, pair: Pair, kind: str, chance: random.Random) -> str:
    """Put the next number to each key alone; what became of them: unknown if that is so of one of them."""
    number = pair.begin(deletes=False)
    one, other = (
        _changed(partial(_change, jobs, "put", register.key, None, number))[0] for register in (pair.one, pair.other)
    )
    pair.end_each(number, (one, other))
    return UNKNOWN if UNKNOWN in (one, other) else other if one == DONE else one


def _changed(change: Callable[[], Answer]) -> tuple[str, Callable[[int | None], bool] | None]:
    """What became of a change, and which values its key may have had before, if its caller was told."""
    answers: list[Answer] = []
    outcome = str(_outcome(lambda: answers.append(change())))
    if not answers:
        return outcome, None
    done, fits = answers[0]
    return DONE if done else FAILED, fits


def _condition(key: str, expected: int | None) -> dict[str, Any]:
    return {key: ABSENT if expected is None else expected}


def _count(jobs: Any, key: str, seen: int) -> bool:
    found: bool = jobs.replace(key, seen, seen + 1) if seen else jobs.put_if_absent(key, 1)
    return found


def _outcome(call: Callable[[], Any]) -> str | bool:
    """What a call came to: a condition's answer, or how it ended."""
    try:
        answer = call()
    except CommitUnknown:
        return UNKNOWN
    except KvwalError:
        return REFUSED
    return answer if isinstance(answer, bool) else DONE
