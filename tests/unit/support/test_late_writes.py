"""The clients of the history checker notice a write of unknown outcome that replaces a later one, for every kind of write.

They use an embedded map, of which one write has an unknown outcome.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import CommitUnknown
from tests.support.cluster.steps import Steps

AT_ONCE, BEFORE, NEVER, AFTER = "at once", "before the next write", "never", "after the next acknowledged write"
WRITES = [
    *(("register-", kind) for kind in ("put", "delete", "replace", "remove", "pop", "put_if_absent", "commit_if")),
    *(("pair-", kind) for kind in ("put_many", "transaction", "submit_many", "commit_if")),
    *(("once-", "put_if_absent"), ("tally", "replace")),
]
ROUNDS = 2000
"""Far more than a client needs until it makes a write of the kind, and one after it."""
MORE = 20


class Late:
    """A map of which a write of one kind, to a key that begins with `prefix`, has an unknown outcome, and is done `when`.

    `happened` says whether `when` has come. Where it would make no difference then, a later write has an unknown outcome, too.
    """

    def __init__(self, jobs: Any, prefix: str, kind: str, when: str) -> None:
        self.happened = False
        self._jobs = jobs
        self._which = (prefix, kind)
        self._when = when
        self._pending: dict[str, Any] = {}
        self.get = jobs.get
        self.items = jobs.items

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        call = getattr(self._jobs, kind)

        def write(*arguments: Any, **named: Any) -> Any:
            return self._write(kind, keys_of(kind, arguments, named), lambda: call(*arguments, **named))

        return write

    @contextmanager
    def transaction(self) -> Iterator[dict[str, Any]]:
        """See `kvwal.structures.map.map.Map.transaction`."""
        changes: dict[str, Any] = {}
        yield changes
        self._write("transaction", list(changes), lambda: self._jobs.put_many(changes))

    def _write(self, kind: str, keys: list[str], call: Callable[[], Any]) -> Any:
        if self._when == BEFORE:
            self._do_late(keys)
        before = self._values(keys)
        answer = call()
        if kind == "submit_many":
            answer.result()
        after = self._values(keys)
        if before != after and self._is_next(kind, keys[0]):
            self._lose(before, after)
            raise CommitUnknown("the answer was lost")
        is_done = answer is not (None if kind == "pop" else False)
        if self._when == AFTER and is_done:
            self._do_late(keys)
        return answer

    def _is_next(self, kind: str, key: str) -> bool:
        prefix, unknown = self._which
        return unknown == kind and key.startswith(prefix) and not self._pending and not self.happened

    def _values(self, keys: list[str]) -> dict[str, Any]:
        return {key: self._jobs.get(key) for key in keys}

    def _lose(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        if self._when != AT_ONCE:
            self._set(before)
        if self._when in (BEFORE, AFTER):
            self._pending = after
        else:
            self.happened = True

    def _do_late(self, keys: list[str]) -> None:
        """Do what is pending of these keys, where it makes a difference."""
        late = {key: self._pending[key] for key in keys if key in self._pending}
        differs = self._values(list(late)) != late
        if differs:
            self._set(late)
            self.happened = True
        if differs or not late or self._which[0] != "tally":  # a count is the same until the one after
            self._pending = {key: value for key, value in self._pending.items() if key not in late}

    def _set(self, values: dict[str, Any]) -> None:
        self._jobs.submit_many(
            {key: value for key, value in values.items() if value is not None},
            [key for key, value in values.items() if value is None],
        ).result()


def keys_of(kind: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[str]:
    """The keys that a call may change."""
    if kind == "commit_if":
        return list(arguments[1])
    if kind in ("put_many", "submit_many"):
        return [*arguments[0], *named.get("deletes", ())]
    return [arguments[0]]


def take_turns(clients: list[Iterator[tuple[str, str]]]) -> None:
    """One step of each."""
    assert clients, "no client wrote on to the key of its write of unknown outcome"
    for client in clients:
        next(client)


def judged(root: Path, prefix: str, kind: str, when: str) -> list[str]:
    """What the checker says of clients of such a map, which take turns."""
    with kvwal.open(root, archive=None, flush="os") as store:
        late: Any = Late(store.map("jobs"), prefix, kind, when)
        steps = Steps(late, writers=1, keys=3)
        clients = {
            "register-": [steps.writing(steps.registers[0]), steps.reading(late.get, "reader")],
            "pair-": [steps.pairing("pair")],
            "once-": [steps.making("one"), steps.making("other")],
            "tally": [steps.counting(), steps.counting()],
        }[prefix]
        rounds = itertools.repeat(clients, ROUNDS)
        while not late.happened:
            take_turns(next(rounds, []))
        for _ in range(MORE):
            take_turns(clients)
        return steps.judge(dict(late.items()))


@pytest.mark.parametrize(("prefix", "kind"), WRITES)
def test_a_write_of_unknown_outcome_that_replaces_a_later_one_is_noticed(
    tmp_path: Path, prefix: str, kind: str
) -> None:
    wrong = judged(tmp_path, prefix, kind, AFTER)
    assert wrong
    assert all(sentence.startswith(prefix) for sentence in wrong), wrong


@pytest.mark.parametrize("when", [AT_ONCE, BEFORE, NEVER])
@pytest.mark.parametrize(("prefix", "kind"), WRITES)
def test_a_write_of_unknown_outcome_may_be_done_until_the_next_one_or_never(
    tmp_path: Path, prefix: str, kind: str, when: str
) -> None:
    assert judged(tmp_path, prefix, kind, when) == []
