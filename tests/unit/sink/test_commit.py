"""The commit of a write: transactions and marks on a real store, cut off between any two of them, and finished by others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.entry import Entry
from kvwal.errors import ClusterUnreachable, NotRecovered, StorageFull
from kvwal.spark.sink import commit, staging
from kvwal.spark.sink.blocks import StagedBlock, StagedRowsLost, make_block
from kvwal.spark.sink.commit import Committer
from kvwal.spark.sink.marks import FencedWriter, Verdict, WriteMark, WriteMarks, judge
from kvwal.spark.sink.options import write_options
from kvwal.spark.sink.staging import Staging, epoch_write, open_staging
from kvwal.spark.state.lease import LEASE_SECONDS
from kvwal.spark.state.records import PREFIX
from kvwal.structures.map.map import commit_entries_if, submit_entries
from kvwal_archive.errors import ConfigError

JOB, QUERY = "1795558549423-00000000000000aa", "340e2949-67e6-416e-b99a-f322758fd1f9"
RUNS = [f"run-{number}" for number in range(4)]
BLOCKS = 4


class Killed(Exception):
    """The driver is gone."""


class Time:
    """A clock that goes on only when someone pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def elapsed(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        raise NotImplementedError

    def random_bits(self, bits: int) -> int:
        raise NotImplementedError

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


class Sink:
    """One business of a store in a folder, with staged blocks. `exclusive`: as the lock of a folder makes it."""

    def __init__(self, root: Path, jobs: Any, *, exclusive: bool) -> None:
        self.options = write_options({"store": str(root), "business": "jobs"})
        self.map = jobs
        self.time = Time()
        self.exclusive = exclusive
        self.folder = root / "_staging"

    def committer(self) -> Committer:
        return Committer(self.map, self.options, exclusive=self.exclusive, clock=self.time, pause=self.time.pause)

    def staged(self, write: str, run: str = "x") -> list[StagedBlock]:
        blocks = []
        with open_staging(self.options) as place:
            for number in range(BLOCKS):
                entry = Entry(b"key-%d" % number, "str", run.encode(), "str", False, 0)
                block, data = make_block(f"{number}.rows", [entry])
                place.put(write, block.name, data)
                blocks.append(block)
        return blocks

    def batch(self, job: str = JOB, run: str = "x") -> None:
        blocks = self.staged(job, run)
        with open_staging(self.options) as place:
            self.committer().write_batch(job, place, blocks)

    def epoch(self, epoch: int, run: str) -> None:
        write = epoch_write(QUERY, epoch, run)
        blocks = self.staged(write, f"{epoch}/{run}")
        with open_staging(self.options) as place:
            self.committer().write_epoch(QUERY, run, epoch, write, place, blocks)

    def rows(self) -> dict[str, str]:
        return {key: value for key, value in self.map.items() if not key.startswith(PREFIX)}

    def marks(self) -> list[str]:
        return [key for key, _ in self.map.scan(PREFIX)]

    def files(self) -> list[str]:
        return [path.name for path in self.folder.rglob("*") if path.is_file()]


def whole(run: str) -> dict[str, str]:
    return {f"key-{number}": run for number in range(BLOCKS)}


@pytest.fixture(params=[True, False], ids=["folder", "cluster"])
def sink(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sink]:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        yield Sink(tmp_path / "root", store.map("jobs"), exclusive=request.param)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction for each block."""
    monkeypatch.setattr(commit, "rows_bytes", lambda jobs: 1)


@contextmanager
def cut_off(monkeypatch: pytest.MonkeyPatch, after: int, error: Exception) -> Iterator[None]:
    """The error in place of the transaction after so many."""
    left = [after]

    def no_more() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise error

    with before_each(monkeypatch, no_more):
        yield


@contextmanager
def before_each(monkeypatch: pytest.MonkeyPatch, step: Callable[[], None]) -> Iterator[None]:
    """Take a step before each transaction that has rows."""

    def submit(jobs: Any, entries: list[Entry]) -> Any:
        step()
        return submit_entries(jobs, entries)

    def commit_if(jobs: Any, conditions: Any, entries: list[Entry]) -> bool:
        if any(not entry.key.startswith(PREFIX.encode()) for entry in entries):
            step()
        return commit_entries_if(jobs, conditions, entries)

    with monkeypatch.context() as patch:
        patch.setattr(commit, "submit_entries", submit)
        patch.setattr(commit, "commit_entries_if", commit_if)
        yield


def test_what_fits_is_one_transaction_without_a_mark(sink: Sink) -> None:
    sink.batch()
    assert len({sink.map.entry(key).timestamp for key in sink.rows()}) == 1
    assert (sink.rows(), sink.marks(), sink.files()) == (whole("x"), [], [])


@pytest.mark.usefixtures("small")
def test_what_does_not_fit_is_several_transactions_and_leaves_no_mark(sink: Sink) -> None:
    sink.batch()
    assert len({sink.map.entry(key).timestamp for key in sink.rows()}) == BLOCKS
    assert (sink.rows(), sink.marks(), sink.files()) == (whole("x"), [], [])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("after", range(BLOCKS))
@pytest.mark.parametrize("error", [Killed(), StorageFull("full")], ids=["killed", "full"])
def test_the_next_write_finishes_one_that_was_cut_off(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, after: int, error: Exception
) -> None:
    with pytest.raises(type(error)), cut_off(monkeypatch, after, error):
        sink.batch(run="first")
    assert len(sink.rows()) == after
    with open_staging(sink.options) as place:
        sink.committer().write_batch("1795558549424-00000000000000bb", place, [])
    assert (sink.rows(), sink.marks(), sink.files()) == (whole("first"), [], [])


@pytest.mark.usefixtures("small")
def test_the_older_write_is_finished_before_the_newer_one_begins(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Killed), cut_off(monkeypatch, 2, Killed()):
        sink.batch(run="old")
    sink.batch("1795558549424-00000000000000bb", "new")
    assert (sink.rows(), sink.marks(), sink.files()) == (whole("new"), [], [])


@pytest.mark.usefixtures("small")
def test_a_write_whose_staged_rows_are_gone_holds_no_other_up(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Killed), cut_off(monkeypatch, 2, Killed()):
        sink.batch(run="old")
    next(sink.folder.rglob("3.rows")).unlink()
    sink.batch("1795558549424-00000000000000bb", "new")
    assert (sink.rows(), sink.marks(), sink.files()) == (whole("new"), [], [])


@pytest.mark.usefixtures("small")
def test_staged_rows_that_are_missing_are_named_before_anything_is_written(sink: Sink) -> None:
    blocks = sink.staged(JOB)
    next(sink.folder.rglob("0.rows")).unlink()
    with (
        open_staging(sink.options) as place,
        pytest.raises(StagedRowsLost, match=r"0\.rows are missing.*one staging place"),
    ):
        sink.committer().write_batch(JOB, place, blocks)
    assert sink.rows() == {}


def test_a_transaction_is_tried_again_while_the_cluster_recovers(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [NotRecovered("not yet"), NotRecovered("not yet")]
    monkeypatch.setattr(commit, "_POLL_SECONDS", 0)

    def recover() -> None:
        if errors:
            raise errors.pop()

    for write in (lambda: sink.batch(run="x"), lambda: sink.epoch(0, RUNS[0])):
        with before_each(monkeypatch, recover):
            write()
    assert sink.rows() == whole(f"0/{RUNS[0]}")


@pytest.mark.parametrize("most", [1, 1 << 20])
def test_an_epoch_counts_once(sink: Sink, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(commit, "rows_bytes", lambda jobs: most)
    sink.epoch(0, RUNS[0])
    sink.map.delete("key-0")
    sink.epoch(0, RUNS[0])
    sink.epoch(0, RUNS[1])
    assert sink.rows() == {key: value for key, value in whole(f"0/{RUNS[0]}").items() if key != "key-0"}
    sink.epoch(1, RUNS[1])
    assert (sink.rows(), len(sink.marks()), sink.files()) == (whole(f"1/{RUNS[1]}"), 1, [])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("after", range(BLOCKS))
def test_the_next_run_finishes_the_epoch_that_was_cut_off(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    sink.epoch(0, RUNS[0])
    with pytest.raises(Killed), cut_off(monkeypatch, after, Killed()):
        sink.epoch(1, RUNS[0])
    sink.epoch(1, RUNS[1])
    assert sink.rows() == whole(f"1/{RUNS[0]}")
    sink.epoch(2, RUNS[1])
    assert sink.rows() == whole(f"2/{RUNS[1]}")


@pytest.mark.usefixtures("small")
def test_an_epoch_whose_staged_rows_are_gone_is_written_by_the_next_run(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Killed), cut_off(monkeypatch, 2, Killed()):
        sink.epoch(0, RUNS[0])
    next(sink.folder.rglob("3.rows")).unlink()
    sink.epoch(0, RUNS[1])
    assert sink.rows() == whole(f"0/{RUNS[1]}")


def test_a_run_is_refused_after_another_took_over(sink: Sink) -> None:
    sink.epoch(0, RUNS[0])
    sink.epoch(1, RUNS[1])
    with pytest.raises(FencedWriter, match="another run of it has written epoch 1 since"):
        sink.epoch(2, RUNS[0])
    with pytest.raises(FencedWriter, match="epoch 1 was written already, and this run is at epoch 0"):
        sink.epoch(0, RUNS[2])
    assert sink.rows() == whole(f"1/{RUNS[1]}")


@pytest.mark.usefixtures("small")
def test_a_writer_in_a_cluster_that_lives_keeps_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        sink = Sink(tmp_path / "root", store.map("jobs"), exclusive=False)
        with pytest.raises(Killed), cut_off(monkeypatch, 2, Killed()):
            sink.epoch(0, RUNS[0])
        with pytest.raises(Killed), cut_off(monkeypatch, 2, Killed()):
            sink.batch(run="first")
        marks = WriteMarks(sink.map)

        def beat() -> None:
            for job in (QUERY, JOB):
                mark = marks.of(job)
                assert mark is not None
                sink.map.put(PREFIX + job, {**sink.map[PREFIX + job], "beat": mark.beat + 1})

        sink.time.meanwhile = beat
        with pytest.raises(FencedWriter, match="another run of it is writing epoch 0 now"):
            sink.epoch(0, RUNS[1])
        sink.committer().finish_others("other")
        assert marks.unfinished() == [JOB]
        assert sink.time.now < LEASE_SECONDS


def test_leftovers_go_when_they_are_old(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a batch write and of a stream, and what a killed task was writing."""
    for write in (lambda: sink.batch(), lambda: sink.epoch(0, RUNS[0])):
        monkeypatch.setattr(staging, "LEFTOVER_SECONDS", 60)
        sink.staged("1700000000000-00000000000000cc")
        sink.staged(epoch_write(QUERY, 7, RUNS[3]))
        (next(sink.folder.rglob("0.rows")).parent / ".1.rows.partial").write_bytes(b"half")
        sink.batch()
        assert len(sink.files()) == 2 * BLOCKS + 1
        monkeypatch.setattr(staging, "LEFTOVER_SECONDS", -60)
        write()
        assert sink.files() == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("owner", "name"), [(Staging, "remove"), (Staging, "clean"), (WriteMarks, "unfinished")])
def test_a_write_that_is_in_the_store_does_not_fail_by_what_it_leaves_behind(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    usual = getattr(owner, name)

    def fail(*args: Any) -> Any:
        if name == "unfinished" and not sink.rows():
            return usual(*args)
        raise ClusterUnreachable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        sink.batch()
        assert sink.rows() == whole("x")
        sink.epoch(0, RUNS[0])
    assert sink.rows() == whole(f"0/{RUNS[0]}")
    monkeypatch.setattr(staging, "LEFTOVER_SECONDS", -60)
    sink.batch()
    assert (len(sink.marks()), sink.files()) == (1, [])


def test_an_epoch_that_was_claimed_and_is_empty_in_its_replay_holds_no_other_up(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Killed), cut_off(monkeypatch, 0, Killed()):
        sink.epoch(0, RUNS[0])
    sink.epoch(1, RUNS[1])
    assert sink.rows() == whole(f"1/{RUNS[1]}")


def test_others_cannot_read_staged_rows(tmp_path: Path) -> None:
    usual = os.umask(0)
    try:
        with open_staging(write_options({"store": str(tmp_path / "root"), "business": "jobs"})) as place:
            place.put(JOB, "0.rows", b"x")
    finally:
        os.umask(usual)
    folders = [tmp_path / "root", tmp_path / "root" / "_staging"]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o750, 0o750]


def test_names_of_staged_rows_are_checked(sink: Sink) -> None:
    with open_staging(sink.options) as place:
        for write, name in (("../x", "a"), ("", "a"), ("a/b", "c"), (JOB, "a/b")):
            with pytest.raises(ValueError, match="name no staged rows"):
                place.put(write, name, b"")
    with pytest.raises(ConfigError):
        write_options({"store": "x", "business": "jobs", "staging": "nowhere://x"})


def test_a_mark_says_what_a_run_does() -> None:
    mark = WriteMark("b", epoch=5, parts=2, done=2, former=["a"])
    assert judge("q", None, "a", 0) is Verdict.WRITE
    assert judge("q", mark, "b", 6) is Verdict.WRITE
    assert judge("q", mark, "c", 5) is Verdict.REPLAYED
    assert judge("q", WriteMark("b", epoch=5, parts=2, done=1), "c", 6) is Verdict.FINISH
    for run, epoch in (("a", 6), ("a", 5), ("b", 4), ("c", 4)):
        with pytest.raises(FencedWriter):
            judge("q", mark, run, epoch)
