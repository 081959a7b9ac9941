"""Copies of a log by hard links (`cp -al`, rsync --link-dest): the store never writes into a file that has another name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import kvwal
from kvwal.log.files.names import log_folder
from kvwal_archive.layout import Place
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, open_store

SETTINGS = kvwal.Settings(segment_bytes=64 << 10, reserve_bytes=0)
PLACE = Place("default", "local", "m", "local")


def link(root: Path, copy: Path) -> dict[str, bytes]:
    """Copy a root by hard links. Returns the bytes of the log's files in the copy."""
    subprocess.run(["cp", "-al", str(root), str(copy)], check=True)
    return log_bytes(copy)


def log_bytes(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log_folder(root, PLACE).iterdir() if path.name != "LOCK"}


def fill(store: kvwal.Store, text: str) -> None:
    for n in range(300):
        store.map("m")[n] = text * 1000


def test_a_copy_of_a_closed_store_stays_as_it_was(tmp_path: Path) -> None:
    """Segments that a checkpoint drops are not recycled, and the last seal is not written again in the copy's file."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    with open_store(root, settings=SETTINGS, flush="os") as store:
        fill(store, "x")
    before = link(root, copy)
    assert len(before) > 3
    with open_store(root, settings=SETTINGS, flush="os", start_archiver=lambda: InProcess("")) as store:
        for turn in range(3):
            fill(store, str(turn))
            store.checkpoint()
    assert log_bytes(copy) == before
    with kvwal.open(copy, archive=None) as store:
        assert dict(store.map("m")) == dict.fromkeys(range(300), "x" * 1000)
    with kvwal.open(root, archive=None) as store:
        assert dict(store.map("m")) == dict.fromkeys(range(300), "2" * 1000)


def test_a_recycled_file_that_was_linked_before_it_is_used(tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    with open_store(root, settings=SETTINGS, flush="os", start_archiver=lambda: InProcess("")) as store:
        fill(store, "x")
        store.checkpoint()
        assert list(root.rglob("recycled-*.partial"))
        before = {name: data for name, data in link(root, copy).items() if name.endswith((".partial", ".snapshot"))}
        fill(store, "y")
        assert {name: data for name, data in log_bytes(copy).items() if name in before} == before


def test_the_segment_of_an_idle_log_is_replaced_before_it_is_written_again(tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    with open_store(root, clock=FakeClock()) as store:
        store.map("m")["a"] = 1
        store.map("m")._business.log.appender.close_idle(sync=True)  # type: ignore[attr-defined]
        before = link(root, copy)
        store.map("m")["b"] = 2
        assert log_bytes(copy) == before
    with open_store(root, clock=FakeClock()) as store:
        assert dict(store.map("m")) == {"a": 1, "b": 2}
