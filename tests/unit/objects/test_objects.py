"""The archive's port to objects: put if absent, confirm, list; in a folder and behind fsspec; faults become sentences."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ConfigError
from kvwal_archive.faults import NotTaken, ObjectMissing, archive_error
from kvwal_archive.objects import Objects, RemoteObjects, open_objects, without_credentials


@pytest.fixture(params=["folder", "file-url", "fsspec"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    urls = {
        "folder": str(tmp_path / "a"),
        "file-url": f"file://{tmp_path / 'a'}",
        "fsspec": f"memory://{uuid.uuid4().hex}/a",
    }
    return open_objects(urls[request.param])


def test_an_object_is_put_once_and_never_changed(objects: Objects) -> None:
    assert objects.put_if_absent("a/b/one", b"first")
    assert not objects.put_if_absent("a/b/one", b"second")
    assert objects.read("a/b/one") == b"first"


def test_listing_is_by_prefix_and_sorted(objects: Objects) -> None:
    for key in ("b/2", "a/b/x", "a/_log", "a/_log.2", "ab/c"):
        objects.put_if_absent(key, key.encode())
    assert [item.key for item in objects.list("")] == ["a/_log", "a/_log.2", "a/b/x", "ab/c", "b/2"]
    assert [item.key for item in objects.list("a/")] == ["a/_log", "a/_log.2", "a/b/x"]
    assert [item.key for item in objects.list("a/_log")] == ["a/_log", "a/_log.2"]
    assert [item.size for item in objects.list("b/")] == [3]
    assert objects.list("nothing/here/") == []


def test_a_part_of_an_object_can_be_read(objects: Objects) -> None:
    objects.put_if_absent("a", bytes(range(200)))
    with objects.open("a") as file:
        assert file.seek(-10, os.SEEK_END) == 190
        assert file.read() == bytes(range(190, 200))
        file.seek(3)
        assert file.read(2) == b"\x03\x04"
        assert file.tell() == 5


def test_parts_of_many_objects_are_read_at_once_and_come_in_order(objects: Objects) -> None:
    for key in ("a", "b/c"):
        objects.put_if_absent(key, key.encode() + bytes(range(200)))
    ranges = [("b/c", 0, 4), ("a", 199, 900), ("b/c", 3, 5), ("a", 0, 1)]
    assert objects.read_ranges(ranges) == [b"b/c\x00", b"\xc6\xc7", b"\x00\x01", b"a"]
    assert objects.read_ranges([]) == []
    with pytest.raises(ObjectMissing, match=r"no such object .*nothing"):
        objects.read_ranges([("a", 0, 1), ("nothing", 0, 1), ("b/c", 0, 1)])


def test_in_one_look_a_range_is_read_over_the_network_once(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = open_objects(f"memory://{uuid.uuid4().hex}/a")
    for key in ("a", "b"):
        objects.put_if_absent(key, key.encode() * 9)
    look = objects.for_one_look()
    assert look.read_ranges([("a", 0, 2), ("b", 0, 3)]) == [b"aa", b"bbb"]
    objects.delete("a")
    assert look.for_one_look().read_ranges([("b", 0, 1), ("a", 0, 2)]) == [b"b", b"aa"]
    for another in (objects, objects.for_one_look()):
        with pytest.raises(ObjectMissing):
            another.read_ranges([("a", 0, 2)])
    monkeypatch.setattr("kvwal_archive.objects.remote.LOOK_BYTES", 0)
    full = objects.for_one_look()
    assert full.read_ranges([("b", 0, 1)]) == [b"b"]
    objects.delete("b")
    with pytest.raises(ObjectMissing):
        full.read_ranges([("b", 0, 1)])


def test_fetch_gives_a_local_file(objects: Objects, tmp_path: Path) -> None:
    objects.put_if_absent("a", b"bytes")
    assert objects.fetch("a", tmp_path).read_bytes() == b"bytes"


@pytest.mark.parametrize("read", ["read", "open", "fetch", "confirm"])
def test_a_missing_object_is_named(objects: Objects, tmp_path: Path, read: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {"fetch": (tmp_path,), "confirm": (b"x",)}
    with pytest.raises(ObjectMissing, match=r"no such object .*nothing"):
        getattr(objects, read)("nothing", *arguments.get(read, ()))


def test_delete_is_idempotent(objects: Objects) -> None:
    objects.put_if_absent("a", b"1")
    objects.delete("a")
    objects.delete("a")
    assert objects.list("") == []


def test_confirm_wants_the_very_bytes(objects: Objects) -> None:
    objects.put_if_absent("a", b"123")
    objects.confirm("a", b"123")
    for other in (b"12", b"124", b""):
        with pytest.raises(ArchiveDamaged, match="a is not what was put there"):
            objects.confirm("a", other)


def test_of_many_who_put_one_key_one_wins(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    barrier = threading.Barrier(8)
    won: list[int] = []

    def put(number: int) -> None:
        barrier.wait()
        if objects.put_if_absent("a/b", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert objects.read("a/b") == b"%d" % won[0]


def test_an_unfinished_put_is_invisible_and_removed_when_old(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    objects.put_if_absent("a/b", b"1")
    left = tmp_path / "a" / ".c.123.partial"
    left.write_bytes(b"half")
    os.utime(left, (1000, 1000))
    assert [item.key for item in objects.list("")] == ["a/b"]
    assert objects.remove_unfinished("a", 999_999) == []
    assert objects.remove_unfinished("a", 1_000_001) == ["a/.c.123.partial"]
    assert not left.exists()


def test_a_put_that_finishes_during_a_sweep_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = open_objects(str(tmp_path))
    unfinished = tmp_path / ".a.123.partial"
    unfinished.write_bytes(b"half")
    real_stat = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        if path == unfinished:
            unfinished.unlink()
        return real_stat(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert objects.remove_unfinished("", 1 << 62) == []


def test_the_file_is_durable_before_its_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real_fsync, real_link = os.fsync, os.link
    folders = {os.stat(folder).st_ino: folder.name for folder in (tmp_path, tmp_path / "a") if folder.exists()}

    def fsync(descriptor: int) -> None:
        calls.append(
            f"fsync {folders.get(os.fstat(descriptor).st_ino, Path(os.readlink(f'/proc/self/fd/{descriptor}')).name)}"
        )
        real_fsync(descriptor)

    def link(source: Path, target: Path) -> None:
        calls.append(f"link {target.name}")
        real_link(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    open_objects(str(tmp_path / "archive")).put_if_absent("x/y", b"1")
    assert calls[0].startswith("fsync .y.")
    assert calls[1:5] == ["link y", "fsync x", "fsync archive", f"fsync {tmp_path.name}"]


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "this user may not put a"),
        (errno.EIO, "failed"),
    ],
)
def test_a_disk_that_fails_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    objects = open_objects(str(tmp_path))
    with pytest.raises(ArchiveError, match=says) as caught:
        objects.put_if_absent("a", b"1")
    assert isinstance(caught.value.__cause__, OSError)
    monkeypatch.undo()
    assert objects.list("") == []


def test_a_full_local_disk_is_not_the_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of an object, or the file that is to be put, is on a disk of this machine: the archive takes new objects."""
    objects = open_objects(f"memory://{uuid.uuid4().hex}/a")
    objects.put_if_absent("a", b"1" * 100_000)
    copy = tmp_path / "0123"
    copy.symlink_to("/dev/full")
    monkeypatch.setattr(uuid, "uuid4", lambda: SimpleNamespace(hex=copy.name))
    with pytest.raises(ArchiveError, match=f"{copy}: this local file cannot be used to read a of memory") as full:
        objects.fetch("a", tmp_path)
    assert not isinstance(full.value, NotTaken)
    assert "free space there" in full.value.hint


def test_a_local_file_that_went_before_its_put_is_not_a_missing_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = open_objects(f"memory://{uuid.uuid4().hex}/a")
    file = tmp_path / "object"
    file.write_bytes(b"12")
    monkeypatch.setattr("kvwal_archive.objects.remote.SINGLE_PUT_BYTES", 1)
    monkeypatch.setattr(RemoteObjects, "_has", lambda *given: file.unlink())
    with pytest.raises(ArchiveError, match=f"{file}: this local file cannot be used to put b") as gone:
        objects.put_if_absent("b", file)
    assert "bucket" not in str(gone.value)


def test_only_a_put_can_find_no_space_in_an_archive(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert type(archive_error(full, "folder", "put", "a")) is NotTaken
    assert type(archive_error(full, "folder", "read", "a")) is ArchiveError


def test_a_root_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    objects = open_objects(str(file))
    for call in (lambda: objects.list(""), lambda: objects.put_if_absent("a", b""), lambda: objects.read("a")):
        with pytest.raises(ArchiveError, match="is not a folder"):
            call()


def test_a_file_where_a_folder_must_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "ns").write_bytes(b"")
    with pytest.raises(ArchiveError, match="holds a file where a folder must be"):
        open_objects(str(tmp_path)).put_if_absent("ns/a", b"")


def test_an_unknown_kind_of_url_is_a_setting_to_mend() -> None:
    with pytest.raises(ConfigError, match="nonsense://"):
        open_objects("nonsense://somewhere")


def test_what_is_shown_holds_no_secret() -> None:
    objects = open_objects(
        "s3://user:hunter2@bucket/prefix", {"key": "k3y", "secret": "s3cret", "endpoint_url": "http://127.0.0.1:9"}
    )
    assert "bucket/prefix" in repr(objects)
    assert not any(word in repr(objects) + objects.url for word in ("hunter2", "k3y", "s3cret"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://user:hunter2@bucket/prefix/", "s3://bucket/prefix"),
        ("s3a://user:hun/t@er2@bucket/prefix", "s3a://bucket/prefix"),
        ("s3://bucket/user:a@b", "s3://bucket/user:a@b"),
        ("hdfs://user:hunter2@host:8020/a@b", "hdfs://host:8020/a@b"),
        ("hdfs://host:8020/a@b", "hdfs://host:8020/a@b"),
        ("abfs://container@account.dfs.core.windows.net/a", "abfs://container@account.dfs.core.windows.net/a"),
        ("abfs://user:hunter2@container/a", "abfs://container/a"),
    ],
)
def test_a_url_is_shown_without_its_secret(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


def test_what_another_process_opens_is_the_url_with_its_secret(tmp_path: Path) -> None:
    url = f"memory://user:hunter2@{tmp_path.name}"
    objects = open_objects(url)
    objects.put_if_absent("a", b"1")
    assert objects.address == url
    assert open_objects(objects.address).read("a") == b"1"
    assert "hunter2" not in f"{objects.url} {objects!r}"
    assert open_objects(str(tmp_path)).address == str(tmp_path)


@pytest.mark.parametrize("url", ["s3:/bucket/prefix", "S3:/b", "file:/folder", "gs:/", "s3:/key:secret@bucket"])
def test_a_url_with_one_slash_is_no_folder(url: str) -> None:
    with pytest.raises(ConfigError, match="with one slash") as caught:
        open_objects(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "gs://", "file://", "file://data/archive"])
def test_a_url_that_names_no_bucket_or_no_whole_path_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="names no"):
        open_objects(url)


@pytest.mark.parametrize("folder", ["./s3:/bucket", "a:/b", "s3:", "/x/s3:/b", "a b:/c"])
def test_what_only_looks_a_little_like_a_url_is_a_folder(folder: str) -> None:
    assert open_objects(folder).url == str(Path(folder).absolute())
