"""Contents that are written as a stream: whole at the end of the block, or not at all."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.content.writer import SHARED_BYTES
from kvwal.errors import CodecError, ContentFailed, StoreClosed, WrongType
from kvwal.store.sync import WritableStore
from kvwal.structures.content.content import Contents
from tests.support.disk.cuts import ROOT
from tests.support.disk.faults import FakeClock, FakeDisk, make_options, open_store
from tests.support.disk.lives import SETTINGS, OnDisk
from tests.support.disk.power import MemoryDisk

LARGE = bytes(range(256)) * (SHARED_BYTES // 256 + 1)


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def contents(tmp_path: Path, disk: FakeDisk) -> Iterator[Contents]:
    with open_store(tmp_path / "root", disk) as store:
        yield store.content("work")


def claim_files(root: Path) -> list[Path]:
    return [path for path in root.rglob("content/*/*") if path.is_file()]


def unsettled(contents: Contents) -> dict[str, int]:
    return dict(contents._files()._unsettled)


class Stop(BaseException):
    """What a signal handler raises."""


def test_an_interrupted_write_ends_the_stream(
    contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = contents.create("a")
    out.write(LARGE)

    def interrupted(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr("kvwal.content.own_file.OwnFile.add", interrupted)
        with pytest.raises(Stop):
            out.write(LARGE)
    with pytest.raises(ValueError, match="closed"):
        out.write(b"more")
    out.close()
    assert "a" not in contents
    assert (claim_files(tmp_path), unsettled(contents)) == ([], {})


def test_an_interrupted_close_leaves_nothing(
    contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = contents.create("a")
    out.write(LARGE)

    def interrupted(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr("kvwal.content.own_file.OwnFile.finish", interrupted)
        with pytest.raises(Stop):
            out.close()
    assert "a" not in contents
    assert (claim_files(tmp_path), unsettled(contents)) == ([], {})


def test_a_stream_that_is_dropped_in_a_cycle_leaves_nothing(contents: Contents, tmp_path: Path) -> None:
    out = contents.create("a")
    out.write(LARGE)
    out.itself = out  # type: ignore[attr-defined]
    del out
    with (lock := contents._files()._lock):  # garbage collection may run while this thread has it
        assert lock.acquire(blocking=False)
        lock.release()
        gc.collect()
    assert (claim_files(tmp_path), unsettled(contents)) == ([], {})


PROGRAM = """
import sys
import kvwal
out = kvwal.open(sys.argv[1], archive=None).content("work").create("a")
out.write(bytes(9 << 20))
print("the end")
"""


def test_a_program_ends_though_it_left_a_stream_unclosed(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "root")], capture_output=True, text=True, check=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("the end\n", "")
    with kvwal.open(tmp_path / "root", archive=None) as store:
        assert list(store.content("work")) == []


def test_a_content_that_is_written_byte_by_byte_takes_no_more_memory(contents: Contents) -> None:
    tracemalloc.start()
    try:
        with contents.create("a") as out:
            for _ in range(1 << 18):
                out.write(b"x")
            held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 1 << 20
    assert contents.get("a") == b"x" * (1 << 18)


def test_parts_of_all_sizes_come_in_their_order(contents: Contents) -> None:
    parts = [bytes([number % 251]) * (7**number % 300_000) for number in range(60)]
    with contents.create("a") as out:
        for part in parts:
            out.write(part)
        assert out.tell() == sum(map(len, parts))
    assert contents.get("a") == b"".join(parts)


@pytest.mark.parametrize("data", [5, "text", [1, 2], None])
def test_what_are_no_bytes_is_refused(contents: Contents, data: object) -> None:
    with pytest.raises(WrongType, match="a content is bytes"):
        contents.put("a", data)  # type: ignore[arg-type]
    with contents.create("b") as out:
        with pytest.raises(WrongType):
            out.write(data)  # type: ignore[arg-type]
        out.write(memoryview(bytearray(b"a-b-c"))[::2])
    assert contents.get("b") == b"abc"
    assert "a" not in contents


def test_attributes_that_no_entry_can_hold_are_refused_before_a_byte_is_written(
    contents: Contents, tmp_path: Path
) -> None:
    with pytest.raises(CodecError, match="not Unicode"):
        contents.put("a", b"a", {"what": "\ud800"})
    assert claim_files(tmp_path) == []


def test_a_store_that_is_closed_meanwhile_refuses_the_rest(tmp_path: Path) -> None:
    store = kvwal.open(tmp_path / "root", archive=None)
    contents = store.content("work")
    large, small, whole = (contents.create(name) for name in ("large", "small", "whole"))
    large.write(LARGE)
    small.write(b"small")
    whole.write(LARGE)
    store.close()
    with pytest.raises(StoreClosed):
        large.write(LARGE)
    for out in (small, whole):
        with pytest.raises(StoreClosed):
            out.close()
    assert claim_files(tmp_path) == []


def test_a_forked_child_leaves_the_stream_of_its_parent_alone(contents: Contents) -> None:
    out = contents.create("a")
    out.write(LARGE)
    if (child := os.fork()) == 0:
        try:
            out.write(b"of the child" * (1 << 20))
        except StoreClosed:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    out.write(b"of the parent")
    out.close()
    assert contents.get("a") == LARGE + b"of the parent"


def test_a_forked_child_that_drops_a_finished_stream_deletes_nothing(contents: Contents) -> None:
    out = contents.create("a")
    out.write(LARGE)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.read(read, 1)
        out.discard()
        os._exit(0)
    out.close()
    os.write(write, b"x")
    assert os.waitpid(child, 0)[1] == 0
    assert contents.get("a") == LARGE


CALLS = ["create", "write_at", "datasync", "allocate", "truncate", "rename", "make_folder", "sync_folder"]


def memory_store(disk: MemoryDisk) -> WritableStore:
    clock = FakeClock()
    return WritableStore(
        make_options(ROOT, settings=SETTINGS, disk=disk, clock=clock, start_archiver=lambda: OnDisk(disk, clock))
    )


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("size", [10, SHARED_BYTES + 10])
def test_a_content_is_not_there_after_any_call_of_the_disk_has_failed(call: str, size: int) -> None:
    """Neither its name, nor a file of its own, nor a descriptor; and the next content is."""
    failed = 0
    for nth in range(1, 20):
        disk = MemoryDisk()
        store = memory_store(disk)
        contents = store.content("b")
        store.map("b")["log"] = "is there"
        held = len(disk.limits.held)
        disk.fail(call, nth)
        try:
            contents.put("a", bytes(size))
        except ContentFailed:
            failed += 1
            assert "a" not in contents
            assert size < SHARED_BYTES or not [path for path in disk.seen if "content" in path.parts]
            assert len(disk.limits.held) <= held + (size < SHARED_BYTES), "but a shared file"
            assert size < SHARED_BYTES or unsettled(contents) == {}
        except kvwal.LogFailed:
            break
        disk._countdown.clear()
        contents.put("b", bytes(size))
        assert contents.get("b") == bytes(size)
        store.close()
        assert not disk.limits.held
    if call != "truncate" and (call != "rename" or size > SHARED_BYTES):
        assert failed
