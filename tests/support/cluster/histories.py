"""Histories of keys: the changes that clients asked for, what they were told of each, and what a reader may find.

A change of unknown outcome may take effect later, until a change that was asked for after it takes effect: it never replaces a
later change (docs/cluster-semantics.md). So the changes of a key that take effect do so in the order in which they were asked
for, and a later acknowledged change ends what an earlier one of unknown outcome may do.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

DONE, OPEN, UNKNOWN, REFUSED, FAILED = "done", "open", "unknown", "refused", "False"
"""FAILED is the outcome of a change whose condition did not hold."""
NOT_DONE = (REFUSED, FAILED)


class Register:
    """One key, changed by one writer and read by anybody. The n-th change puts the number n, or deletes.

    A change that was refused has to be the last, so that it can be seen; so has the acknowledged change after one of unknown
    outcome. What was read once stays.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.wrong: list[str] = []
        self.floor = 0
        """The last change that somebody was told of: the writer by an acknowledgement or a condition, or a reader."""
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
        self.told(floor, len(self._outcomes), lambda value: value == found, f"{found} was read")

    def told(self, floor: int, end: int, fits: Callable[[int | None], bool], what: str) -> None:
        """Somebody was told something of the value, after `floor` was told and before the change `end` was asked for."""
        with self._lock:
            number = next((n for n in range(floor, end) if self._may(n) and fits(self._value(n))), None)
            if number is None:
                self.wrong.append(f"{self.key}: {what} after {floor} was told, of {self._tail(floor)}")
            else:
                self._told.add(number)
                self.floor = max(self.floor, number)

    def possible(self) -> list[int | None]:
        """The values that the key may have, while no change is under way. After something wrong, it may seem to have none."""
        with self._lock:
            return [self._value(n) for n in range(self.floor, len(self._outcomes)) if self._may(n)] or [None]

    @property
    def had_unknown(self) -> bool:
        """Whether a change was of unknown outcome."""
        return UNKNOWN in self._outcomes

    @property
    def is_over(self) -> bool:
        """Whether the last change has to stay the last."""
        return self._outcomes[-1] == (DONE if self.had_unknown else REFUSED)

    def _may(self, number: int) -> bool:
        return self._outcomes[number] not in NOT_DONE

    def _value(self, number: int) -> int | None:
        return None if self._deletes[number] else number

    def _tail(self, floor: int) -> list[tuple[int, str, str]]:
        numbers = range(floor, len(self._outcomes))[:8]
        return [(number, "delete" if self._deletes[number] else "put", self._outcomes[number]) for number in numbers]

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong, when all is over."""
        self.read(final.get)
        refused = [number for number in self._told if self._outcomes[number] in NOT_DONE]
        return self.wrong + [f"{self.key}: change {number} was refused, and was read" for number in refused]


class Once:
    """One key that several want to make. One whose attempt is of unknown outcome tries again, under another name."""

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
    """A number that several count up, each by a comparison. It never goes back."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        self._floor = 0
        self._done: Counter[int] = Counter()
        self._unknown = 0

    def look(self, get: Callable[[str, int], int]) -> int:
        """What one of them sees before it counts."""
        floor = self._floor
        seen = get(self.key, 0)
        with self._lock:
            if seen < floor:
                self.wrong.append(f"{self.key}: {seen} was read after {floor} was told")
            self._floor = max(self._floor, seen)
        return seen

    def end(self, seen: int, outcome: str | bool) -> None:
        """What became of an attempt to make `seen + 1` of `seen`."""
        with self._lock:
            self._done[seen] += outcome is True
            self._unknown += outcome == UNKNOWN
            if outcome is True:
                self._floor = max(self._floor, seen + 1)

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong, when all is over."""
        done, found = sum(self._done.values()), self.look(final.get)
        twice = [seen for seen, times in self._done.items() if times > 1]
        if twice or not done <= found <= done + self._unknown:
            return [
                *self.wrong,
                f"{self.key}: {found} is there, after {done} successes and {self._unknown} unknown; twice: {twice}",
            ]
        return self.wrong


class Pair:
    """Two keys that one writer changes as one. After an unknown outcome it writes on, as one or to each key alone, until that is
    acknowledged: what the members finish later may not replace it.
    """

    def __init__(self, key: str) -> None:
        self.one = Register(f"{key}-one")
        self.other = Register(f"{key}-other")
        self._is_one = True
        """Whether the keys hold the same in the end: a put of one of them alone may have failed."""

    def begin(self, *, deletes: bool) -> int:
        """A change of both is about to be asked for; its number."""
        self.one.begin(deletes=deletes)
        return self.other.begin(deletes=deletes)

    def end(self, number: int, outcome: str) -> None:
        """What became of a change of both as one."""
        for register in (self.one, self.other):
            register.end(number, outcome)
        self._is_one |= outcome == DONE

    def end_each(self, number: int, outcomes: tuple[str, str]) -> None:
        """What became of a put of each key alone."""
        for register, outcome in zip((self.one, self.other), outcomes, strict=True):
            register.end(number, outcome)
        self._is_one = outcomes == (DONE, DONE)

    @property
    def had_unknown(self) -> bool:
        """Whether a change was of unknown outcome."""
        return self.one.had_unknown or self.other.had_unknown

    @property
    def is_over(self) -> bool:
        """Whether the last change has to stay the last."""
        return self.one.is_over and self.other.is_over

    def apart(self, final: dict[str, Any]) -> list[str]:
        """Whether the keys hold different values, in a sentence or none."""
        one, other = final.get(self.one.key), final.get(self.other.key)
        return [] if one == other or not self._is_one else [f"{self.one.key} is {one}, and {self.other.key} is {other}"]

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong, when all is over."""
        return self.apart(final) + self.one.judge(final) + self.other.judge(final)
