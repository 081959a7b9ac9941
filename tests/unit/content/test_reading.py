"""Reads of contents: damage, files that go meanwhile, descriptors, and what leaves the store."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kvwal.content.claim import claim_of
from kvwal.content.writer import SHARED_BYTES
from kvwal.errors import ConfigError, ContentDamaged, ContentMissing, StorageFull
from kvwal.structures.content.content import Contents
from tests.support.disk.faults import FakeDisk, open_store

LARGE = bytes(range(256)) * (SHARED_BYTES // 256 + 1)


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def contents(tmp_path: Path, disk: FakeDisk) -> Iterator[Contents]:
    with open_store(tmp_path / "root", disk) as store:
        yield store.content("work")


def path_of(contents: Contents, name: str, root: Path) -> Path:
    entry = contents.entry(name)
    assert entry is not None
    (path,) = root.rglob(f"content/*/{claim_of(entry).file}")
    return path


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.breaks("contents", reason="its bytes are damaged")
def test_a_flipped_bit_is_no_content(contents: Contents, tmp_path: Path, data: bytes) -> None:
    contents.put("a", data)
    flip(path_of(contents, "a", tmp_path), len(data) - 1)
    with pytest.raises(ContentDamaged, match="not those that were written"):
        contents.get("a")
    with contents.open("a") as file, pytest.raises(ContentDamaged):
        file.read()
    with contents.open("a") as file, pytest.raises(ContentDamaged):
        list(iter(partial(file.read, 1000), b""))
    with pytest.raises(ContentDamaged):
        contents.export("a", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with contents.open("a", length=2) as file:
        assert file.read() == data[:2]


@pytest.mark.breaks("contents", reason="its file is cut")
def test_a_file_that_ends_too_early_is_damage(contents: Contents, tmp_path: Path) -> None:
    contents.put("a", LARGE)
    os.truncate(path_of(contents, "a", tmp_path), 1000)
    with pytest.raises(ContentDamaged, match=r"ends .* bytes too early"):
        contents.get("a")


@pytest.mark.breaks("contents", reason="its file is gone")
def test_a_file_that_is_gone_is_named(contents: Contents, tmp_path: Path) -> None:
    contents.put("a", b"a")
    path = path_of(contents, "a", tmp_path)
    path.unlink()
    with pytest.raises(ContentMissing, match=path.name):
        contents.get("a")


def test_a_content_that_is_being_read_can_be_read_to_its_end(contents: Contents, tmp_path: Path) -> None:
    contents.put("a", LARGE)
    with contents.open("a") as file, contents.open("a", offset=5) as rest:
        first = path_of(contents, "a", tmp_path)
        contents.put("a", b"another")
        first.unlink()  # as the cleaner does
        assert file.read(1000) + file.read() == LARGE
        assert rest.read() == LARGE[5:]
    assert contents.get("a") == b"another"


def test_a_read_whose_file_went_meanwhile_reads_what_is_there_now(
    contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents.put("a", LARGE)
    first, entry = path_of(contents, "a", tmp_path), contents._entry("a")
    contents.put("a", b"another")
    first.unlink()
    found = iter([entry])
    latest = contents._entry
    monkeypatch.setattr(contents, "_entry", lambda name: next(found, None) or latest(name))
    assert contents.get("a") == b"another"


def test_a_lack_of_descriptors_is_no_damage(contents: Contents, disk: FakeDisk) -> None:
    contents.put("a", b"a")
    disk.limits.open_files = len(disk.limits.held)
    with pytest.raises(StorageFull, match="no file descriptor is left"):
        contents.get("a")
    disk.limits.open_files = 64
    assert contents.get("a") == b"a"


def test_a_file_that_is_read_is_closed(contents: Contents, disk: FakeDisk) -> None:
    contents.put("a", LARGE)
    held = len(disk.limits.held)
    assert contents.get("a") == LARGE
    file = contents.open("a")
    assert len(disk.limits.held) == held + 1
    file.close()
    file.close()
    contents.open("a")
    assert len(disk.limits.held) == held


def test_positions_are_those_of_what_was_opened(contents: Contents) -> None:
    contents.put("a", b"0123456789")
    with contents.open("a", offset=2, length=5) as file:
        assert (file.seek(-2, io.SEEK_END), file.read(), file.tell()) == (3, b"56", 5)
        assert (file.seek(1), file.read(2), file.seek(1, io.SEEK_CUR), file.read()) == (1, b"34", 4, b"6")
        assert (file.seek(100), file.read()) == (100, b"")
        with pytest.raises(ValueError, match="before the start"):
            file.raw.seek(-1)
        with pytest.raises(ValueError, match="whence=7"):
            file.raw.seek(0, 7)
    with contents.open("a", offset=100) as file:
        assert file.read() == b""


def test_a_file_is_put_as_it_was_when_the_put_began(
    contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, other = tmp_path / "source", tmp_path / "other"
    source.write_bytes(LARGE)
    other.write_bytes(b"x" * len(LARGE))
    write = contents.create("probe").__class__.write

    def replaced(stream: object, data: bytes) -> int:
        if other.exists():
            other.rename(source)
        return write(stream, data)  # type: ignore[arg-type]

    monkeypatch.setattr("kvwal.structures.content.stream.ContentStream.write", replaced)
    contents.put_file("a", source)
    assert contents.get("a") == LARGE


def test_an_export_replaces_nothing(contents: Contents, tmp_path: Path, disk: FakeDisk) -> None:
    contents.put("a", b"a")
    (tmp_path / "there").write_bytes(b"there")
    with pytest.raises(ConfigError, match="is there already"):
        contents.export("a", tmp_path / "there")
    disk.fail("datasync")
    with pytest.raises(ConfigError, match=os.strerror(errno.EIO)):
        contents.export("a", tmp_path / "new")
    assert (tmp_path / "there").read_bytes() == b"there"
    assert not (tmp_path / "new").exists()
