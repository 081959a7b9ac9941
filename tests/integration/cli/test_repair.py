"""A damaged root, and the way back to service: open refuses, verify says where, repair saves what there is and says what is
lost, the folder is put in place, and the store opens, archives and restores.

The log has six segments of three puts each, of a key of its own each, so that a lost sequence is a lost key.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kvwal as library
from kvwal.errors import ConfigError, CorruptLog, KvwalError
from kvwal.log.files.format import find_blocks
from kvwal.log.files.names import log_folder
from kvwal.log.reader import SegmentReader
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from kvwal_archive.registry import take_over
from tests.support.cli import Ran, kvwal
from tests.support.log.store import fill_segments, open_with_archiver

PLACE = Place("default", "local", "b", "local")
LAST = 18
Damage = Callable[[Path], None]


def segment(folder: Path, first: int) -> Path:
    return folder / f"{first:020}.wal"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def flip_block(folder: Path, first: int, number: int) -> None:
    """Damage the block of that number (from 0; the last is the seal) of a segment."""
    path = segment(folder, first)
    data = path.read_bytes()
    blocks = list(find_blocks(data, 1, SegmentReader(path, data).header.salt))
    flip(path, blocks[number].offset + 13)


def middle_block(folder: Path) -> None:
    flip_block(folder, 7, 1)


def first_block(folder: Path) -> None:
    flip_block(folder, 7, 0)


def two_blocks(folder: Path) -> None:
    flip_block(folder, 7, 2)
    flip_block(folder, 7, 0)


def header(folder: Path) -> None:
    flip(segment(folder, 7), 40)


def header_and_block(folder: Path) -> None:
    flip_block(folder, 7, 1)
    header(folder)


def seal(folder: Path) -> None:
    flip_block(folder, 7, 3)


def missing(folder: Path) -> None:
    segment(folder, 7).unlink()


def missing_first(folder: Path) -> None:
    segment(folder, 1).unlink()


def last_block(folder: Path) -> None:
    flip_block(folder, 16, 2)


CASES: list[tuple[Damage, set[int]]] = [
    (middle_block, {8}), (first_block, {7}), (two_blocks, {7, 9}), (header, set()), (header_and_block, {8}),
    (seal, set()), (missing, {7, 8, 9}), (missing_first, {1, 2, 3}), (last_block, {18}),
]  # fmt: skip


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file under a folder, but the archive's."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and "_archive" not in p.parts}


def refused(root: Path, **options: Any) -> None:
    with library.open(root, **options) as store, pytest.raises(KvwalError):
        store.map("b")


def repair(root: Path, *arguments: object) -> tuple[Ran, dict[str, Any]]:
    ran = kvwal("log", "repair", root, "--json", *arguments)
    return ran, json.loads(ran.out) if ran.out else {}


def held(root: Path, **options: Any) -> dict[str, int]:
    with library.open(root, read_only=True, **options) as store:
        return dict(store.map("b").items())


def values(without: set[int]) -> dict[str, int]:
    return {f"key-{number}": number for number in range(1, LAST + 1) if number not in without}


def swap(root: Path, repaired: Path, aside: Path) -> None:
    """What the operator does: the damaged folder is kept elsewhere, and the new one put in its place."""
    log_folder(root, PLACE).rename(aside)
    log_folder(repaired, PLACE).rename(log_folder(root, PLACE))


def serves_again(root: Path, tmp_path: Path, archive: Path, expected: dict[str, int]) -> None:
    """Open, read, write, archive, verify, restore."""
    with open_with_archiver(root, archive) as store:
        b = store.map("b")
        assert dict(b.items()) == expected
        b["after"] = 100
        store.archive()
        store.checkpoint()
        b["later"] = 200
    expected = {**expected, "after": 100, "later": 200}
    assert kvwal("log", "verify", root, "--archive", archive).code == 0
    assert kvwal("archive", "verify", archive).code == 0
    library.restore(archive, tmp_path / "restored")
    assert held(tmp_path / "restored", archive=None) == held(root, archive=archive) == expected


def take_over_by_repair(tmp_path: Path, damage: Damage, gone: set[int], archived: int) -> None:
    root, into, archive = tmp_path / "data", tmp_path / "into", tmp_path / "data" / "_archive"
    fill_segments(root, segments=6, archived=archived)
    damage(log_folder(root, PLACE))
    refused(root)
    assert kvwal("log", "verify", root).code == 4
    before = contents(root)
    lost = {number for number in gone if number > 3 * archived}
    offered, _ = repair(root)
    assert (offered.code, into.exists()) == (4 if lost else 0, False)
    ran, report = repair(root, "--into", into, "--take-over")
    assert contents(root) == before
    assert (ran.code, report["archived up to"]) == (4 if lost else 0, 3 * archived)
    assert sum(map(int, _counts(report["lost"]))) == len(lost)
    swap(root, into, tmp_path / "aside")
    serves_again(root, tmp_path, archive, values(without=lost))
    with library.open(root, read_only=True) as store:
        assert [len(store.map("b").history(f"key-{number}")) for number in (1, 8)] == [
            int(n not in lost) for n in (1, 8)
        ]


def _counts(lost: str) -> list[str]:
    """How many sequences each sentence names."""
    found = []
    for sentence in filter(None, lost.split("known.")):
        words = sentence.replace(":", " ").split()
        if words[0].isdecimal():
            found.append(words[0])
        else:
            first, _, last = words[1].partition("–")
            found.append(str(int(last or first) - int(first) + 1))
    return found


@pytest.mark.parametrize(("damage", "gone"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_repair_that_takes_over(tmp_path: Path, damage: Damage, gone: set[int]) -> None:
    """The archive has the sequences up to 9."""
    take_over_by_repair(tmp_path, damage, gone, archived=3)


@pytest.mark.parametrize("archived", [1, 6])
def test_a_repair_with_less_and_with_more_in_the_archive(tmp_path: Path, archived: int) -> None:
    take_over_by_repair(tmp_path, two_blocks, {7, 9}, archived)


@pytest.mark.parametrize(("damage", "gone"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_repair_of_what_was_never_archived(tmp_path: Path, damage: Damage, gone: set[int]) -> None:
    root, into = tmp_path / "data", tmp_path / "into"
    fill_segments(root, segments=6, archived=0)
    damage(log_folder(root, PLACE))
    refused(root)
    ran, report = repair(root, "--into", into)
    assert (ran.code, report["state"], report["entries saved"]) == (4 if gone else 0, "repaired", LAST - len(gone))
    assert sum(map(int, _counts(report["lost"]))) == len(gone)
    swap(root, into, tmp_path / "aside")
    serves_again(root, tmp_path, root / "_archive", values(without=gone))


def test_a_log_of_its_own_has_what_the_archive_knows_too(tmp_path: Path) -> None:
    """Without --take-over nothing is changed in the archive, and the new log needs another one."""
    root, into = tmp_path / "data", tmp_path / "into"
    fill_segments(root, segments=6, archived=3)
    missing(log_folder(root, PLACE))
    last_block(log_folder(root, PLACE))
    there = sorted((root / "_archive").rglob("*"))
    ran = kvwal("log", "repair", root, "--into", into)
    assert (ran.code, sorted((root / "_archive").rglob("*"))) == (4, there)
    assert "another one, or repair with --take-over" in ran.out
    with library.open(into, archive=root / "_archive") as store:
        store.map("b")
        with pytest.raises(ConfigError, match="belongs to another log"):
            store.archive()
        store.close(archive=False)
    serves_again(into, tmp_path, tmp_path / "other", values(without={18}))


@pytest.mark.parametrize("archived", [0, 3])
def test_a_damaged_snapshot_whose_segments_are_gone(tmp_path: Path, archived: int) -> None:
    root, into = tmp_path / "data", tmp_path / "into"
    options = {} if archived else {"archive": None}
    fill_segments(root, segments=6, archived=archived, checkpointed=3)
    (snapshot,) = log_folder(root, PLACE).glob("*.snapshot")
    assert min(log_folder(root, PLACE).glob("*.wal")).name == f"{10:020}.wal"
    flip(snapshot, snapshot.stat().st_size // 2)
    refused(root, **options)
    ran, report = repair(root, "--into", into, *(["--take-over"] if archived else ["--archive", "none"]))
    assert ran.code == (0 if archived else 4)
    assert ("sequences 1–9" in report["lost"]) == (not archived)
    swap(root, into, tmp_path / "aside")
    serves_again(root, tmp_path, root / "_archive", values(without=set() if archived else set(range(1, 10))))


def test_a_snapshot_brings_back_what_a_damaged_segment_under_it_lost(tmp_path: Path) -> None:
    """The archive is behind the snapshot: the segment waits for it, and is damaged."""
    root, into = tmp_path / "data", tmp_path / "into"
    fill_segments(root, segments=5, archived=3)
    with library.open(root) as store:
        store.map("b")["key-8"] = 16
        store.map("b").update({"key-17": 17, "key-18": 18})
        store.checkpoint()
    flip_block(log_folder(root, PLACE), 13, 1)
    ran, report = repair(root, "--into", into, "--take-over")
    assert ran.code == 4
    assert "the snapshot has the latest values of their keys" in report["lost"]
    swap(root, into, tmp_path / "aside")
    serves_again(root, tmp_path, root / "_archive", values(without={16}) | {"key-8": 16})


def test_an_older_copy_and_its_archive_become_one_log(tmp_path: Path) -> None:
    root, into = tmp_path / "data", tmp_path / "into"
    fill_segments(root, segments=3, archived=3)
    shutil.copytree(log_folder(root, PLACE), tmp_path / "backup")
    with library.open(root) as store:
        store.map("b").update({f"key-{number}": number for number in range(10, LAST + 1)})
        store.archive()
    shutil.rmtree(log_folder(root, PLACE))
    (tmp_path / "backup").rename(log_folder(root, PLACE))
    with library.open(root) as store:
        store.map("b")["new"] = 1
        store.close(archive=False)
    assert kvwal("log", "verify", root).code == 4
    ran, _ = repair(root, "--into", into, "--take-over")
    assert ran.code == 0
    swap(root, into, tmp_path / "aside")
    serves_again(root, tmp_path, root / "_archive", values(without=set()) | {"new": 1})


def test_the_damaged_log_is_fenced(tmp_path: Path) -> None:
    root, into = tmp_path / "data", tmp_path / "into"
    fill_segments(root, segments=6, archived=3)
    before = contents(root)
    middle_block(log_folder(root, PLACE))
    assert repair(root, "--into", into, "--take-over")[0].code == 0
    for path, data in before.items():
        path.write_bytes(data)
    with library.open(root) as store:
        store.map("b")["key-19"] = 19
        with pytest.raises(ConfigError, match="fenced this one"):
            store.archive()
        store.close(archive=False)


def test_a_sound_log_is_left_alone(tmp_path: Path) -> None:
    root, into = tmp_path / "data", tmp_path / "into"
    fill_segments(root, segments=2, archived=1)
    before = contents(tmp_path)
    ran = kvwal("log", "repair", root, "--into", into)
    assert (ran.code, contents(tmp_path)) == (0, before)
    assert "Nothing is damaged here, and nothing was written." in ran.out


def test_only_the_damaged_business_is_repaired(tmp_path: Path) -> None:
    root, into = tmp_path / "data", tmp_path / "into"
    fill_segments(root, segments=6, archived=0)
    with library.open(root, archive=None) as store:
        store.map("sound")["key"] = 1
    middle_block(log_folder(root, PLACE))
    ran = kvwal("log", "repair", root, "--into", into, "--json")
    states = {line["business"]: line["state"] for line in map(json.loads, ran.out.splitlines())}
    assert states == {"b": "repaired", "sound": "sound"}
    assert sorted(path.name for path in (into / "default" / "local").iterdir()) == ["b"]


def test_what_cannot_be_repaired_so_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    root, into, archive = tmp_path / "data", tmp_path / "into", tmp_path / "data" / "_archive"
    fill_segments(root, segments=6, archived=3)
    middle_block(log_folder(root, PLACE))
    assert "needs --into" in repair(root, "--take-over")[0].err
    assert "was never archived there" in repair(root, "--into", into, "--take-over", "--archive", tmp_path / "x")[0].err
    assert "there is none" in repair(root, "--into", into, "--take-over", "--archive", "none")[0].err
    (tmp_path / "file").touch()
    assert repair(root, "--into", into, "--archive", tmp_path / "file" / "a")[0].code == 3
    (one,) = archive.rglob(f"{4:020}*.parquet")
    one.rename(tmp_path / "object")
    gap = repair(root, "--into", into, "--take-over")[0]
    assert (gap.code, "4–6 are in no object" in gap.err) == (2, True)
    (tmp_path / "object").rename(one)
    flip(one, one.stat().st_size - 20)
    damaged = repair(root, "--into", into, "--take-over")[0]
    assert (damaged.code, "cannot go on in the archive" in damaged.err) == (2, True)
    assert not into.exists()
    ran, report = repair(root, "--into", into)
    assert (ran.code, held(into, archive=None)) == (4, values(without={8}) | {"key-8": 8})
    assert "the archive: " in report["lost"]
    assert "holds a store already" in repair(root, "--into", into)[0].err


def test_a_fenced_log_is_not_repaired_into_the_archive(tmp_path: Path) -> None:
    root, into = tmp_path / "data", tmp_path / "into"
    fill_segments(root, segments=6, archived=3)
    middle_block(log_folder(root, PLACE))
    take_over(open_objects(str(root / "_archive")), PLACE, "another", 10)
    ran, _ = repair(root, "--into", into, "--take-over")
    assert (ran.code, "this one is fenced" in ran.err) == (2, True)


def test_a_log_in_use_is_not_copied(tmp_path: Path) -> None:
    root = tmp_path / "data"
    fill_segments(root, segments=6, archived=0)
    with library.open(root, archive=None) as store:
        store.map("b")
        flip(segment(log_folder(root, PLACE), 7), 40)
        ran, _ = repair(root, "--into", tmp_path / "into")
        assert (ran.code, "everything in memory" in ran.err) == (3, True)
        assert repair(root)[0].code == 0


def test_large_entries_are_repaired_in_blocks_that_can_be_read(tmp_path: Path) -> None:
    root, into = tmp_path / "data", tmp_path / "into"
    with library.open(root) as store:
        b = store.map("b")
        for number in range(30):
            b[f"key-{number}"] = bytes(1 << 20)
        store.archive()
        b["last"] = b"one"
        store.close(archive=False)
    flip(max(log_folder(root, PLACE).glob("*.wal")), 40)
    assert repair(root, "--into", into, "--take-over")[0].code == 0
    found = held(into, archive=None)
    assert (len(found), found["key-7"]) == (31, bytes(1 << 20))


def test_open_says_which_file_and_repair_is_what_it_names(tmp_path: Path) -> None:
    root = tmp_path / "data"
    fill_segments(root, segments=6, archived=0)
    middle_block(log_folder(root, PLACE))
    with library.open(root) as store, pytest.raises(CorruptLog, match="kvwal log repair") as caught:
        store.map("b")
    assert (caught.value.path.name, caught.value.sequence) == (f"{7:020}.wal", 8)
