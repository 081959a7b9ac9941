"""The merge of several logs in the order of keys: the same entries as the state, in bounded memory, while checkpoints go on."""

from __future__ import annotations

import random
import shutil
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

import pytest

import kvwal
from kvwal.entry import Entry
from kvwal.errors import CorruptLog
from kvwal.history.reads import pinned_log
from kvwal.history.reads.merged_scan import merged_in_order
from kvwal.history.reads.tail_reader import merged_entries
from kvwal.log import reader
from kvwal.log.files import external_sort
from kvwal.log.files.names import find_places
from kvwal.log.unlocked.sinks import LatestOfEach
from kvwal.ports.clock import SystemClock
from kvwal.ports.disk import OS_DISK, OsDisk
from kvwal.store.options import Options
from kvwal.store.sync import WritableStore
from kvwal_archive.layout import Place


def fill(root: Path, node: str, seed: int, *, keys: int = 60) -> None:
    """A log with puts, deletes and checkpoints by chance; many keys are those of other nodes."""
    chance = random.Random(seed)
    with kvwal.open(root, node=node, archive=None) as store:
        numbers = store.map("numbers")
        for step in range(4):
            numbers.update({f"k{chance.randrange(keys)}": step for _ in range(20)})
            numbers.update({chance.randrange(keys): "int key" for _ in range(3)})
            for key in chance.sample(sorted(key for key in numbers if isinstance(key, str)), 3):
                del numbers[key]
            if chance.random() < 0.6:
                store.checkpoint()


def places(root: Path) -> list[Place]:
    return find_places(OS_DISK, root, "default", "local", "numbers")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with five nodes."""
    root = tmp_path_factory.mktemp("root")
    for seed, node in enumerate("abcde"):
        fill(root, node, seed)
    return root


@pytest.mark.parametrize("run_bytes", [external_sort.RUN_BYTES, 200])
def test_the_merge_has_the_entries_of_the_state_in_order(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_bytes: int
) -> None:
    monkeypatch.setattr(external_sort, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(reader, "READ_BYTES", 1)
    expected = merged_entries(OS_DISK, root, places(root))
    assert any(entry.deleted for entry in expected.values())
    shown = [entry.public() for entry in merged_in_order(OS_DISK, root, lambda: places(root), tmp_path)]
    assert shown == [expected[key].public() for key in sorted(expected)]
    assert not list(tmp_path.iterdir()), "no temporary file is left"


class MergingDisk(OsDisk):
    """A disk on which the log of node a goes while the logs are read: a merge of nodes removes it."""

    looks = 0

    def is_folder(self, path: Path) -> bool:
        if path.name == "a":
            self.looks += 1
            if self.looks == 2:
                shutil.rmtree(path)
        return super().is_folder(path)


def test_logs_are_sorted_again_when_one_of_them_has_gone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_sort, "RUN_BYTES", 200)
    root, scratch = Path(shutil.copytree(root, tmp_path / "copy")), tmp_path / "scratch"
    scratch.mkdir()
    shown = [entry.public() for entry in merged_in_order(MergingDisk(), root, lambda: places(root), scratch)]
    left = merged_entries(OS_DISK, root, places(root))
    assert [place.node for place in places(root)] == list("bcde")
    assert shown == [left[key].public() for key in sorted(left)]


class StoppedClock(SystemClock):
    """A wall clock that stands still: two logs give their entries the same timestamps."""

    def wall_ms(self) -> int:
        """See `Clock.wall_ms`."""
        return 1_790_000_000_000


@pytest.mark.parametrize("larger", ["a", "b"])
def test_of_equal_timestamps_the_last_nodes_entry_counts(tmp_path: Path, larger: str) -> None:
    for node in ("b", "a"):
        options = Options(
            tmp_path / "data", namespace="default", cluster="local", node=node, archive=None, flush="sync",
            storage_options=None, settings=None, accept_clock=True, progress=None, clock=StoppedClock(),
        )  # fmt: skip
        with WritableStore(options) as store:
            store.map("numbers")["key"] = node
            store.map("numbers")["size"] = node * (1_000 if node == larger else 1)
    shown = {e.key: e for e in merged_in_order(OS_DISK, tmp_path / "data", lambda: places(tmp_path / "data"), tmp_path)}
    assert shown[b"key"].value == b"b"
    with kvwal.open(tmp_path / "data", read_only=True) as reader:
        assert reader.map("numbers")["key"] == "b", "as in the state"


def test_an_opened_log_is_shown_as_it_was_though_a_checkpoint_replaces_its_snapshot(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, node="a", archive=None) as store:
        numbers = store.map("numbers")
        numbers.update({f"k{number}": 1 for number in range(50)})
        store.checkpoint()
        numbers["k1"] = 2
        [place] = places(tmp_path)
        with pinned_log.pin_log(OS_DISK, tmp_path, place, LatestOfEach) as log:
            entries = chain.from_iterable(log.blocks())
            first = next(entries)
            numbers.update({f"k{number}": 3 for number in range(50)})
            store.checkpoint()
            shown = [first, *entries]
    values = {entry.key: entry.value for entry in shown}
    assert len(values) == 50
    assert (values.pop(b"k1"), set(values.values())) == (b"\x81\x02", {b"\x81\x01"})


def test_damage_is_an_error(root: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(root, tmp_path / "copy"))
    segment = max((root / "default/local/numbers/c").glob("*.wal"), key=lambda path: path.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[300] ^= 1
    segment.write_bytes(data)
    with pytest.raises(CorruptLog):
        list(merged_in_order(OS_DISK, root, lambda: places(root), tmp_path))


def test_many_logs_are_merged_in_the_memory_of_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, size = 20, 1 << 20
    for number in range(nodes):
        with kvwal.open(tmp_path / "data", node=f"n{number:02}", archive=None, flush="os") as store:
            store.map("numbers").update({f"{number}/{part}": bytes([part]) * (size // 8) for part in range(8)})
    monkeypatch.setattr(external_sort, "RUN_BYTES", size)
    found = places(tmp_path / "data")

    def peak(read: Callable[[], Iterable[Entry]]) -> int:
        tracemalloc.start()
        try:
            assert sum(len(entry.value) for entry in read()) == nodes * size
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(lambda: merged_entries(OS_DISK, tmp_path / "data", found).values()) > nodes * size
    assert peak(lambda: merged_in_order(OS_DISK, tmp_path / "data", lambda: found, tmp_path)) < nodes * size // 2
