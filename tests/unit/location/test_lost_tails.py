"""The records of what a lost disk took along: which reads are refused by them, and when they count no more."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal as opening
from kvwal.archiver.jobs import ArchiveTarget, Compact, Compacted
from kvwal.archiver.work import answer
from kvwal.hlc import to_text
from kvwal_archive.errors import ArchiveGap
from kvwal_archive.layout import LostTail, Place, lost_tail_key, parse_lost_tail_key
from kvwal_archive.lost_tails import check_moment, end_lost_tail, lost_tails, note_lost_tail, remove_lost_tails
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.registry import take_over
from kvwal_archive.restore import restore_batches
from kvwal_archive.verify import verify
from kvwal_archive.view import history, latest
from tests.support.archive.archiver import business
from tests.support.archive.history import LOG, fill, place
from tests.support.cli import kvwal
from tests.support.log.store import open_with_archiver

WHERE = ("ns", "local", "jobs")
LOST = place("b")


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    """An archive with 50 rows of two nodes each."""
    made = open_objects(str(tmp_path / "archive"))
    for node in ("a", "b"):
        fill(made, place(node), [(1, 50)])
    return made


def test_a_name_says_all_and_no_other_name_is_one() -> None:
    for tail in (LostTail(LOST, 0, 7), LostTail(LOST, 50, 7, 9)):
        assert parse_lost_tail_key(lost_tail_key(tail)) == tail
    for other in ("_lost", "_lost.1-2", "_log", f"{'1' * 20}-{'2' * 20}.parquet"):
        assert parse_lost_tail_key(f"{LOST.prefix}/{other}") is None


def test_moments_inside_are_refused_and_all_others_are_read(objects: Objects) -> None:
    end = max(latest(objects, *WHERE).column("timestamp").to_pylist())
    whole = latest(objects, *WHERE)
    rows = history(objects, *WHERE, key_class="str", key=whole.column("key")[0].as_py())
    note_lost_tail(objects, LostTail(LOST, 50, end + 10))
    end_lost_tail(objects, lost_tails(objects, *WHERE)[0], end + 20)
    for at in (end + 11, end + 19):
        for read in (latest, restore_batches):
            with pytest.raises(ArchiveGap, match=r"jobs: the disk of b was lost, .* after sequence 50"):
                read(objects, *WHERE, at=at)
    for at in (end, end + 10, end + 20, end + 1000):
        assert latest(objects, *WHERE, at=at).equals(whole)
    assert latest(objects, *WHERE, nodes={"a": None}, at=end + 15).num_rows
    assert latest(objects, *WHERE).equals(whole)
    assert history(objects, *WHERE, key_class="str", key=whole.column("key")[0].as_py()).equals(rows)
    assert not lost_tails(objects, "ns", "local", "others")
    assert not verify(objects).findings


def test_a_tail_without_an_end_lasts_until_it_is_ended_once(objects: Objects) -> None:
    note_lost_tail(objects, LostTail(LOST, 50, 1_000_000))
    [tail] = lost_tails(objects, *WHERE)
    with pytest.raises(ArchiveGap, match="adopted what b had"):
        check_moment([tail], 1 << 62)
    end_lost_tail(objects, tail, 2_000_000)
    end_lost_tail(objects, tail, 3_000_000)
    note_lost_tail(objects, LostTail(LOST, 50, 1_000_000))
    assert lost_tails(objects, *WHERE) == [tail._replace(before=2_000_000)]


def test_a_log_that_lost_two_disks_without_archiving_between_them_has_two_tails(objects: Objects) -> None:
    for begin, end in ((1000, 2000), (1000, 3000)):
        note_lost_tail(objects, LostTail(LOST, 50, begin), again=True)
        note_lost_tail(objects, LostTail(LOST, 50, begin), again=True)  # it was killed and runs again
        [tail] = [each for each in lost_tails(objects, *WHERE) if each.before is None]
        end_lost_tail(objects, tail, end)
    assert [each[2:] for each in lost_tails(objects, *WHERE)] == [(1000, 2000), (1999, 3000)]


def test_a_log_that_comes_back_with_its_disk_has_lost_nothing(objects: Objects) -> None:
    note_lost_tail(objects, LostTail(LOST, 50, 1000, 2000))
    assert lost_tails(objects, *WHERE)
    fill(objects, LOST, [(51, 60)])
    assert not lost_tails(objects, *WHERE)


def test_a_log_that_takes_over_does_not_bring_the_tail_back(objects: Objects) -> None:
    note_lost_tail(objects, LostTail(LOST, 50, 1000, 2000))
    take_over(objects, LOST, "another", 51)
    fill(objects, LOST, [(51, 60)], log_id="another")
    assert len(lost_tails(objects, *WHERE)) == 1


def test_a_tail_goes_with_the_history_that_is_kept(objects: Objects) -> None:
    note_lost_tail(objects, LostTail(LOST, 50, 1000))
    end_lost_tail(objects, lost_tails(objects, *WHERE)[0], 2000)
    note_lost_tail(objects, LostTail(place("a"), 50, 1500))
    assert not remove_lost_tails(objects, *WHERE, 2000)
    assert len(remove_lost_tails(objects, *WHERE, 2001)) == 2
    assert [tail.place.node for tail in lost_tails(objects, *WHERE)] == ["a"]


def test_the_list_of_an_archive_says_each_interval(objects: Objects, tmp_path: Path) -> None:
    note_lost_tail(objects, LostTail(LOST, 50, 1 << 40, 1 << 41))
    for node, told in ((None, 1), ("b", 1), ("a", 0)):
        names = ["--namespace", WHERE[0], *([] if node is None else ["--node", node])]
        ran = kvwal("archive", "list", str(tmp_path / "archive"), *names)
        assert (ran.code, ran.err.count("jobs: the disk of b was lost")) == (0, told)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the logs of two nodes, all archived, and on record that node b lost a disk after its two entries."""
    tmp_path = tmp_path_factory.mktemp("lost")
    times = []
    for node in ("a", "b"):
        with opening.open(tmp_path / "root", node=node, archive=tmp_path / "archive") as store:
            times += [store.map("jobs").put("key", value) for value in (1, 2)]
            store.archive()
    tail = LostTail(Place("default", "local", "jobs", "b"), 2, max(times) + 10, max(times) + 20)
    note_lost_tail(open_objects(str(tmp_path / "archive")), tail)
    return tmp_path / "root"


def test_the_history_of_an_archive_says_each_interval_once(root: Path) -> None:
    archive = root.parent / "archive"
    [tail] = lost_tails(open_objects(str(archive)), "default", "local", "jobs")
    sql = "SELECT * FROM jobs_history"
    for command in (("history", "jobs", "key"), ("history", "jobs", "never-put"), ("query", sql)):
        for node, expected in ((None, 1), ("b", 1), ("a", 0)):
            ran = kvwal(command[0], archive, *command[1:], *([] if node is None else ["--node", node]))
            assert ran.code == ("never-put" in command)
            assert ran.err.count("kvwal: jobs: the disk of b was lost") == expected, (command, node, ran.err)
            assert (
                f"changes after {to_text(tail.after)} and before {to_text(tail.before or 0)}" in ran.err
            ) == expected


def told(caplog: pytest.LogCaptureFixture) -> int:
    """How many warnings of a lost disk were logged since the last call."""
    lost = [record for record in caplog.records if "jobs: the disk of b was lost" in record.getMessage()]
    assert all(record.name.startswith("kvwal.") and record.levelname == "WARNING" for record in lost)
    caplog.clear()
    return len(lost)


def test_the_history_of_a_folder_says_each_interval_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    archive = root.parent / "archive"
    for node, expected in ((None, 1), ("b", 1), ("a", 0)):
        with opening.open(root, node=node, archive=archive, read_only=True) as store:
            assert len(store.map("jobs").history("key")) == (4 if node is None else 2)
            assert told(caplog) == expected
            assert store.sql("SELECT * FROM jobs_history").num_rows == (4 if node is None else 2)
            assert told(caplog) == expected
            assert store.map("jobs")["key"] == 2
            assert told(caplog) == 0
    with opening.open(root, node="b", archive=archive) as store:
        assert len(store.map("jobs").history("key")) == 2
        assert told(caplog) == 1
    ran = kvwal("history", str(root), "jobs", "key", "--archive", str(archive))
    assert (ran.code, ran.err.count("kvwal: jobs: the disk of b was lost")) == (0, 1)


def test_a_watch_that_begins_before_the_end_of_an_interval_says_it(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = root.parent / "archive"
    [tail] = lost_tails(open_objects(str(archive)), "default", "local", "jobs")
    assert tail.before is not None
    with opening.open(root, archive=archive, read_only=True) as store:
        jobs = store.map("jobs")
        for after, expected in (
            (tail.after - 1, 1), (tail.before - 1, 1), (tail.before, 0), (None, 0),
            ('{"a": 2, "b": 2}', 1), ('{"a": 2, "b": 1}', 1), ("{}", 1),
        ):  # fmt: skip
            watch = jobs.watch(after)
            watch.poll()
            watch.poll()
            assert told(caplog) == expected, after


def test_the_figures_of_a_store_count_the_intervals(tmp_path: Path) -> None:
    lost = Place("default", "local", "b", "lost")
    with open_with_archiver(tmp_path / "root", tmp_path / "archive") as store:
        b = store.map("b")
        b["key"] = 1
        assert business(store)["lost_tails"] is None
        for number in range(3):
            b["key"] = number
            store.archive()
            assert business(store)["lost_tails"] == number
            tail = LostTail(lost, number, (number + 1) << 40, (number + 1 << 40) + 1)
            note_lost_tail(open_objects(str(tmp_path / "archive")), tail)


def test_a_compaction_counts_the_intervals_that_are_left(objects: Objects, tmp_path: Path) -> None:
    note_lost_tail(objects, LostTail(LOST, 50, 1000, 2000))
    note_lost_tail(objects, LostTail(place("a"), 50, 1500))
    target = ArchiveTarget(str(tmp_path / "archive"), place("a"), LOG)
    done = answer(Compact(target, str(tmp_path), 0, 0))
    assert isinstance(done, Compacted)
    assert done.lost_tails == 1
