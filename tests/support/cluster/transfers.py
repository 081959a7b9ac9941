"""Accounts between which clients move money, each by a transaction with conditions: no fault changes the sum.

A transfer of which one half is there, one that was done over another, and one that was done twice change the sum.
"""

from __future__ import annotations

import random
from typing import Any

from kvwal import ABSENT

START = 1000
"""What an account has that nobody has changed."""


class Accounts:
    """A few keys of one map."""

    def __init__(self, jobs: Any, count: int = 4) -> None:
        self._jobs = jobs
        self._keys = [f"account-{number}" for number in range(count)]

    def transfer(self, chance: random.Random) -> bool:
        """Move some from one to another. False if somebody else changed one of them meanwhile."""
        giver, taker = chance.sample(self._keys, 2)
        amount = chance.randrange(1, 10)
        found = {key: self._jobs.get(key) for key in (giver, taker)}
        conditions = {key: ABSENT if value is None else value for key, value in found.items()}
        has = {key: START if value is None else value for key, value in found.items()}
        done: bool = self._jobs.commit_if(conditions, {giver: has[giver] - amount, taker: has[taker] + amount})
        return done

    def judge(self, final: dict[str, Any]) -> list[str]:
        """What is wrong, when all is over."""
        there = {key: final.get(key, START) for key in self._keys}
        total = START * len(self._keys)
        return [] if sum(there.values()) == total else [f"{there} is {sum(there.values())}, and {total} were there"]
