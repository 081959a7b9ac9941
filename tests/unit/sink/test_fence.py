"""The fence of the sink: a writer stands still at any step of its protocol, another takes its job over, and it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import KvwalError
from kvwal.spark.sink import commit
from kvwal.spark.sink.blocks import StagedRowsLost
from kvwal.spark.sink.commit import Committer
from kvwal.spark.sink.marks import FencedWriter, WriteMark, WriteMarks
from kvwal.spark.state.records import PREFIX
from kvwal.structures.map.map import Map, commit_entries_if
from tests.support.threads import Standstill
from tests.unit.sink.test_commit import BLOCKS, JOB, QUERY, RUNS, Sink, whole

OTHER = "1795558549424-00000000000000bb"


class StandsStill(Standstill, Map):
    """A map whose user stands still once, at a call of the map."""

    def __init__(self, jobs: Map, step: int, meanwhile: Callable[[], None], *, after: bool) -> None:
        Standstill.__init__(self, step, meanwhile, after=after)
        Map.__init__(self, jobs._business)

    def get(self, *arguments: Any) -> Any:
        return self.call(lambda: super(StandsStill, self).get(*arguments))

    def commit_if(self, *arguments: Any) -> bool:
        return self.call(lambda: super(StandsStill, self).commit_if(*arguments))


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    """A business of a store that stands for a cluster, in which each block is a transaction."""

    def commit_of_entries(jobs: Any, *arguments: Any) -> bool:
        if isinstance(jobs, StandsStill):
            return jobs.call(lambda: commit_entries_if(jobs, *arguments))
        return commit_entries_if(jobs, *arguments)

    monkeypatch.setattr(commit, "rows_bytes", lambda jobs: 1)
    monkeypatch.setattr(commit, "commit_entries_if", commit_of_entries)
    with kvwal.open(tmp_path / "root", archive=None, flush="os") as store:
        yield Sink(tmp_path / "root", store.map("jobs"), exclusive=False)


def stopped(
    sink: Sink, write: Callable[[Sink], None], step: int, meanwhile: Callable[[], None], *, after: bool
) -> tuple[bool, KvwalError | None]:
    """Write, and stand still at a step. Whether there was such a step, and the error that ended the write."""
    own = Sink(sink.folder.parent, sink.map, exclusive=False)
    own.map = StandsStill(sink.map, step, meanwhile, after=after)
    try:
        write(own)
    except (FencedWriter, StagedRowsLost) as error:
        return own.map.is_over, error
    return own.map.is_over, None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_batch_write_that_stood_still_at_any_step_lands_nowhere_once_another_has_finished_it(
    sink: Sink, after: bool
) -> None:
    marks, newer = WriteMarks(sink.map), {f"key-{number}": "newer" for number in range(BLOCKS)}

    def take_over() -> None:
        nonlocal taken
        taken = bool(marks.unfinished())
        sink.committer().finish_others(OTHER)
        sink.map.put_many(newer)

    step, refused = 0, 0
    while True:
        sink.map.clear()
        taken = False
        met, error = stopped(sink, lambda own: own.batch(), step, take_over, after=after)
        if not met:
            break
        refused += error is not None
        if taken:
            assert sink.rows() == newer, step
        assert sink.marks() == [], step
        step += 1
    assert step > BLOCKS
    assert refused >= BLOCKS - 1


@pytest.mark.parametrize("most", [1, 1 << 20], ids=["several transactions", "one transaction"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_run_that_stood_still_at_any_step_lands_nowhere_once_another_run_has_written(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, after: bool, most: int
) -> None:
    """Also where the other run took the query over in its middle, and the staged rows of the epoch are gone by then."""
    monkeypatch.setattr(commit, "rows_bytes", lambda jobs: most)

    def take_over() -> None:
        sink.epoch(1, RUNS[1])
        sink.epoch(2, RUNS[1])

    step, refused = 0, 0
    while True:
        sink.map.clear()
        sink.epoch(0, RUNS[0])
        met, error = stopped(sink, lambda own: own.epoch(1, RUNS[0]), step, take_over, after=after)
        if not met:
            break
        refused += isinstance(error, FencedWriter)
        assert sink.rows() == whole(f"2/{RUNS[1]}"), step
        mark = WriteMarks(sink.map).of(QUERY)
        assert mark is not None
        assert (mark.run, mark.epoch, mark.is_whole) == (RUNS[1], 2, True)
        step += 1
    assert refused >= 1


def test_a_run_whose_staged_rows_went_with_its_query_does_not_write_over_the_other_run(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finishes an epoch that an earlier run began, and stands still before it looks for the staged rows."""
    with monkeypatch.context() as patch:
        patch.setattr(commit, "commit_entries_if", _interrupted_after(2))
        with pytest.raises(KeyboardInterrupt):
            sink.epoch(0, RUNS[0])
    finish = Committer._finish

    def late(self: Committer, *arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(Committer, "_finish", finish)
        sink.epoch(0, RUNS[2])
        sink.epoch(1, RUNS[2])
        return finish(self, *arguments, **named)

    monkeypatch.setattr(Committer, "_finish", late)
    with pytest.raises(FencedWriter, match="another writer has taken it over"):
        sink.epoch(0, RUNS[1])
    assert sink.rows() == whole(f"1/{RUNS[2]}")


def _interrupted_after(transactions: int) -> Callable[..., bool]:
    numbers = iter(range(transactions + 1))

    def commit_or_end(*arguments: Any) -> bool:
        if next(numbers) == transactions:
            raise KeyboardInterrupt
        return commit_entries_if(*arguments)

    return commit_or_end


def test_a_claim_and_its_note_are_one_transaction(sink: Sink) -> None:
    marks = WriteMarks(sink.map)
    mark = WriteMark(JOB, parts=2)
    assert marks.begin(JOB, mark)
    assert sink.map.entry(PREFIX + JOB).timestamp == sink.map.entry(f"{PREFIX}unfinished").timestamp
    assert not marks.begin(JOB, mark)
    assert marks.give_up(JOB, mark)
    marks.end(JOB)
    assert sink.marks() == []
