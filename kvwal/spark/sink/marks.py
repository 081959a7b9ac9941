"""Marks of writes: how much of a job's write is in a map. They are keys of the same map, so that one transaction makes a part of
a write and says that the part is there.

    !ledger/<job>          WriteMark: the last write of a job. A job is a batch write, or a streaming query with its epochs
    !ledger/unfinished     names of the batch writes that were begun and are not finished

A job has one mark, also with many epochs, and a batch write that is finished has none.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from kvwal.codecs import registry
from kvwal.entry import Entry
from kvwal.errors import Kind, KvwalError
from kvwal.spark.state.records import PREFIX, StateMap, plain, read_record, unchanged

if TYPE_CHECKING:
    import pyarrow as pa

_UNFINISHED = f"{PREFIX}unfinished"
_FORMER = 32
"""How many former runs of a query a mark names: each of them is refused by name."""


class FencedWriter(KvwalError):
    """Another writer of the same job has written since, so this one may write nothing more."""

    kind = Kind.CALLER


class WriteMark(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="write"):
    """The last write of a job: `done` of its `parts` transactions are in the map.

    `run` is the process that writes it; its parts wait as the write `staged` in the staging place `place` (empty: that of the
    store). `former` are runs that `run` took the job over from.

    A writer puts its next mark, with a part or without, on the condition that the job has the mark that it knows. `beat` grows
    from claim to claim, so no mark of a job comes twice, and a transaction that arrives late is refused.
    """

    run: str
    epoch: int = 0
    parts: int = 1
    done: int = 0
    beat: int = 0
    staged: str = ""
    place: str = ""
    former: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether all of the write is in the map."""
        return self.done >= self.parts


class Verdict(Enum):
    """What a writer of an epoch does: write it; finish it from where its parts wait; or nothing, because all of it is there."""

    WRITE = "write"
    FINISH = "finish"
    REPLAYED = "replayed"


def judge(job: str, mark: WriteMark | None, run: str, epoch: int) -> Verdict:
    """What `run` does to write `epoch`, by the job's mark. An older epoch that is unfinished is finished first: FINISH, too.

    Raises FencedWriter if another run has taken the job over from `run`, or if the job is at a later epoch.
    """
    if mark is None:
        return Verdict.WRITE
    if run in mark.former:
        raise FencedWriter(
            f"query {job}: another run of it has written epoch {mark.epoch} since; nothing of epoch {epoch} was written.",
            hint="Two queries with one checkpoint are running: stop one of them, and give it a checkpoint of its own.",
        )
    if epoch < mark.epoch:
        raise FencedWriter(
            f"query {job}: epoch {mark.epoch} was written already, and this run is at epoch {epoch}; nothing was written.",
            hint="Its checkpoint is an older copy, or another query uses it too. Begin with a new checkpoint.",
        )
    if not mark.is_whole:
        return Verdict.FINISH
    return Verdict.REPLAYED if epoch == mark.epoch else Verdict.WRITE


def successor(mark: WriteMark | None, run: str) -> list[str]:
    """The former runs of a job when `run` is the next that writes it."""
    if mark is None or mark.run == run:
        return [] if mark is None else mark.former
    return [*mark.former, mark.run][-_FORMER:]


class WriteMarks:
    """The marks in one map."""

    def __init__(self, jobs: StateMap) -> None:
        self._map = jobs

    def of(self, job: str) -> WriteMark | None:
        """The mark of a job, None if it has none."""
        return read_record(self._map, PREFIX + job, WriteMark)

    def claim(self, job: str, expected: WriteMark, mark: WriteMark) -> bool:
        """Put a mark if the job still has the expected one. Returns whether it was put."""
        return self._map.commit_if(condition(job, expected), {PREFIX + job: plain(mark)})

    def begin(self, job: str, mark: WriteMark) -> bool:
        """Put the first mark of a batch write, and add the write to the unfinished ones. False if the job has a mark."""
        while True:
            now = self._map.get(_UNFINISHED)
            conditions = {**condition(job, None), **unchanged(_UNFINISHED, now)}
            if self._map.commit_if(conditions, {PREFIX + job: plain(mark), _UNFINISHED: [*(now or ()), job]}):
                return True
            if self._map.get(PREFIX + job) is not None:
                return False

    def give_up(self, job: str, mark: WriteMark) -> bool:
        """Delete the mark of a batch write if it is still this one. Returns whether it was deleted."""
        return self._map.commit_if(condition(job, mark), {}, [PREFIX + job])

    def unfinished(self) -> list[str]:
        """The batch writes that were begun and are not finished, oldest first."""
        return list(self._map.get(_UNFINISHED) or ())

    def end(self, job: str) -> None:
        """Remove a batch write from the unfinished ones. It has no mark any more."""
        while (now := self._map.get(_UNFINISHED)) is not None:
            others = [name for name in now if name != job]
            puts, deletes = ({_UNFINISHED: others}, []) if others else ({}, [_UNFINISHED])
            if others == now or self._map.commit_if({_UNFINISHED: now}, puts, deletes):
                return


def condition(job: str, mark: WriteMark | None) -> dict[str, Any]:
    """The condition that a job's mark is this one. None: that it has none."""
    return unchanged(PREFIX + job, mark)


def mark_entry(job: str, mark: WriteMark | None) -> Entry:
    """The mark of a job as an entry, to be written by the transaction of which it tells. None: the delete of its mark."""
    value = (b"", "") if mark is None else registry.encode_value(plain(mark))
    return Entry(*registry.encode_key(PREFIX + job), *value, mark is None, 0)


def without_marks(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of an archive or a store that are no marks of a ledger."""
    import pyarrow.compute as pc

    is_mark = pc.and_(pc.equal(rows.column("key_class"), "str"), pc.starts_with(rows.column("key"), PREFIX))
    return rows.filter(pc.invert(is_mark)) if pc.any(is_mark).as_py() else rows
