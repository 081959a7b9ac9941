"""What the archive holds of a destroyed map's log goes, and takes nothing with it that others need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvwal.entry import Entry, time_mark
from kvwal.history.reads.entry_rows import to_table
from kvwal.key_class import DROPPED, TIME_MARK
from kvwal_archive.bases.local import make_base
from kvwal_archive.errors import ArchiveError
from kvwal_archive.layout import Place, Span, base_folder
from kvwal_archive.maintenance.remove_log import LogEnd, remove_log
from kvwal_archive.objects import LocalObjects, open_objects
from kvwal_archive.registry import register, registered, take_over
from kvwal_archive.verify import verify
from kvwal_archive.view import latest
from kvwal_archive.writer import put_segment

WHERE = ("default", "test", "b")


def place(node: str) -> Place:
    return Place(*WHERE, node)


def put(key: str, timestamp: int) -> Entry:
    return Entry(key.encode(), "str", b"x", "bytes", False, timestamp)


def delete(key: str, timestamp: int) -> Entry:
    return Entry(key.encode(), "str", b"", "", True, timestamp)


def mark(timestamp: int) -> Entry:
    return Entry(b"", DROPPED, b"", "none", False, timestamp)


def archived(objects: Any, node: str, *segments: list[Entry]) -> LogEnd:
    """Put these segments of a node's log."""
    register(objects, place(node), f"log-{node}")
    first, crc = 1, 0
    for segment in segments:
        numbered = list(enumerate(segment, first))
        span = Span(first, numbered[-1][0])
        put_segment(
            objects, place(node), span, to_table(numbered), log_id=f"log-{node}", previous_crc=crc, seal_crcs=[crc + 1]
        )
        first, crc = first + len(segment), crc + 1
    return LogEnd(f"log-{node}", first - 1, segments[-1][-1].timestamp)


def keys(objects: Any) -> list[str]:
    return sorted(row["key"].decode() for row in latest(objects, *WHERE).to_pylist() if not row["deleted"])


def test_nothing_of_a_log_alone_is_left_not_even_a_folder(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    end = archived(objects, "a", [put("1", 10), put("2", 11)], [delete("1", 12), delete("2", 13)])
    assert remove_log(objects, place("a"), end, DROPPED, TIME_MARK)
    assert list(tmp_path.iterdir()) == []
    assert remove_log(objects, place("a"), end, DROPPED, TIME_MARK)


def test_a_log_that_goes_on_or_is_another_one_stays(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    end = archived(objects, "a", [put("1", 10), mark(11)], [put("2", 12)])
    before = objects.list("")
    assert not remove_log(objects, place("a"), end._replace(last_sequence=2, last_timestamp=11), DROPPED, TIME_MARK)
    assert not remove_log(objects, place("a"), end._replace(log_id="other"), DROPPED, TIME_MARK)
    assert objects.list("") == before
    take_over(objects, place("a"), "log-new", 4)
    assert not remove_log(objects, place("a"), end, DROPPED, TIME_MARK)


def test_members_of_a_cluster_go_one_after_the_other(tmp_path: Path) -> None:
    """Each had its mark; the earliest goes first, since the archives of the others have passed it."""
    objects = open_objects(str(tmp_path))
    ends = {
        "a": archived(objects, "a", [put("1", 10), mark(21)]),
        "b": archived(objects, "b", [put("2", 11), delete("1", 12)], [mark(20)]),
        "c": archived(objects, "c", [put("3", 13), mark(22)]),
    }
    gone = [
        node for _ in range(3) for node in "abc" if remove_log(objects, place(node), ends[node], DROPPED, TIME_MARK)
    ]
    assert sorted(gone, key="bac".index)[:1] == ["b"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("other", "goes"),
    [
        ([put("1", 5)], False),  # its archive has not passed the mark: an older row may still come
        ([put("1", 5), time_mark(30)], False),  # shadowed by the mark, or by a delete
        ([mark(6), put("1", 15), time_mark(30)], False),  # put again after its own mark, and deleted by the other one
        ([put("1", 5), mark(6), time_mark(30)], True),
        ([put("1", 5), mark(25)], True),
        ([put("1", 25)], True),
        ([put("1", 5), mark(25), put("1", 30)], True),
        ([time_mark(30)], True),
    ],
)
def test_a_log_goes_when_it_holds_down_nothing_of_another_node(other: list[Entry], goes: bool, tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    end = archived(objects, "a", [put("2", 9), mark(19), delete("1", 20)])
    archived(objects, "b", other)
    assert remove_log(objects, place("a"), end, DROPPED, TIME_MARK) is goes
    left = [found.node for found in registered(objects, *WHERE)]
    assert left == (["b"] if goes else ["a", "b"])
    assert verify(objects).findings == []


class Failing(LocalObjects):
    """Fails at the n-th change."""

    def __init__(self, root: str, nth: int) -> None:
        super().__init__(root)
        self.left = nth

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise ArchiveError("killed")

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._step()
        return super().put_if_absent(key, data)

    def delete(self, key: str) -> None:
        self._step()
        super().delete(key)

    def prune(self, prefix: str) -> None:
        self._step()
        super().prune(prefix)


def test_killed_anywhere_readers_find_it_whole_or_not_at_all_and_it_simply_runs_again(tmp_path: Path) -> None:
    nth = 0
    while True:
        nth += 1
        root = tmp_path / str(nth)
        objects = open_objects(str(root))
        segments = [[put("1", 10 * n), delete("1", 10 * n + 1)] for n in range(1, 5)]
        end = archived(objects, "a", *segments)
        archived(objects, "b", [put("2", 60)])
        failing = Failing(str(root), nth)
        try:
            assert remove_log(failing, place("a"), end, DROPPED, TIME_MARK)
        except ArchiveError:
            assert verify(objects).findings == []
            assert keys(objects) == ["2"]
            assert remove_log(objects, place("a"), end, DROPPED, TIME_MARK)
        assert keys(objects) == ["2"]
        assert [found.node for found in registered(objects, *WHERE)] == ["b"]
        if failing.left > 0:
            break
    assert nth > 7


def test_no_base_brings_back_what_the_mark_hid_after_a_kill(tmp_path: Path) -> None:
    """At every change at which a removal can be killed, a read gives what the objects alone have."""
    for nth in range(1, 20):
        folder = tmp_path / f"{nth}"
        objects = Failing(str(folder), 0)
        end = archived(objects, "a", [put("1", 10), mark(20)])
        archived(objects, "b", [put("2", 90)])
        make_base(objects, *WHERE)
        objects.left = nth
        try:
            done = remove_log(objects, place("a"), end, DROPPED, TIME_MARK)
        except ArchiveError:
            done = False
        read = keys(objects)
        objects.left = 0
        for item in objects.list(base_folder(*WHERE)):
            objects.delete(item.key)
        assert read == keys(objects)
        if done:
            break
    assert nth > 4
