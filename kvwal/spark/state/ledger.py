"""Ledger of runs: which parts of an input are done. The mark of a part and the results of its run are one transaction.

    !ledger/run/<input>/<part>     RunMark: the part is done, and what the run said of it

The input's name stands there with `%2F` for a slash and `%25` for a percent sign; the part stands as it is.
The mark is put on the condition that it is absent. So of two runs of a part, at once or one after a kill, one is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kvwal.spark.state.records import PREFIX, Changes, StateMap, exchange, nonce, read_record, unchanged


class RunMark(msgspec.Struct, frozen=True, tag_field="kind", tag="run"):
    """A part of an input is done. `note` is what the run said of it, `write` a text that no other run has."""

    write: str
    note: Any = None


class Run(Changes):
    """One run of a part of an input: a `with` block whose changes are committed at its end, together with the mark.

    `is_done` says whether the part was done when the block began: then leave the block, because its changes are dropped.
    `is_committed` says, after the block, whether the changes of this run are in the map.
    """

    def __init__(self, commit: Callable[[Changes], None], before: RunMark | None) -> None:
        super().__init__(commit)
        self.is_done = before is not None
        self.note: Any = None if before is None else before.note
        """What the run that did the part said of it. Set it to any JSON value, for those that ask later."""
        self.is_committed = False


class Ledger:
    """The runs in one map. `state` is a map, or a `Lease`, under which the runs are committed then."""

    def __init__(self, state: StateMap) -> None:
        self._state = state

    def is_done(self, name: str, part: int | str = 0) -> bool:
        """Whether this part of the input is done."""
        return self._mark(name, part) is not None

    def missing(self, name: str, parts: Iterable[int | str]) -> list[int | str]:
        """Those of the parts that are not done, in their order."""
        return [part for part in parts if not self.is_done(name, part)]

    def note(self, name: str, part: int | str = 0) -> Any:
        """What the run that did this part said of it, None if the part is not done."""
        mark = self._mark(name, part)
        return None if mark is None else mark.note

    def run(self, name: str, part: int | str = 0) -> Run:
        """`with ledger.run("orders-2026-11-24", part=3) as run: run["sum"] = …` commits the changes, and that the part is done.

        If the part is done already, or another run of it is committed first, the changes of this one are dropped. After an error,
        or a kill, the part is not done and no change is there. Raises what `Map.commit_if` raises, and under a lease `LeaseLost`.
        """
        run = Run(lambda changes: self._commit(name, part, run), self._mark(name, part))
        return run

    def forget(self, name: str, part: int | str = 0) -> None:
        """Let a part be done again. The results of its run stay."""
        key = _key(name, part)
        mark = read_record(self._state, key, RunMark)
        if mark is not None:
            self._state.commit_if(unchanged(key, mark), {}, [key])

    def _commit(self, name: str, part: int | str, run: Run) -> None:
        if not run.is_done:
            mark = RunMark(nonce(), run.note)
            run.is_committed = exchange(self._state, _key(name, part), None, mark, run.puts, run.deletes)

    def _mark(self, name: str, part: int | str) -> RunMark | None:
        return read_record(self._state, _key(name, part), RunMark)


def _key(name: str, part: int | str) -> str:
    whole = name.replace("%", "%25").replace("/", "%2F")  # a part may have a slash, so the name may not
    return f"{PREFIX}run/{whole}/{part}"
