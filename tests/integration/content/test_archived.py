"""Contents and the archive: bytes go up before their names, come back when they are asked for, and go when history has passed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.content.folder import claim_files
from kvwal.log.files.names import log_folder
from kvwal.ports.disk import OS_DISK
from kvwal_archive.contents.collect import gc_contents
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import Place
from kvwal_archive.maintenance.compaction import gc, rewrite
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.verify import verify
from tests.support.archive import s3

WHERE = ("default", "local", "files")
PLACE = Place(*WHERE, "local")
LARGE = bytes(range(256)) * (20 << 10)
"""5 MiB: a content with a claim file of its own."""
LATER_MS = 1 << 42


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as opened:
        yield opened


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path / "archive"))


def local_files(root: Path, node: str = "local") -> set[str]:
    return {file.name for file in claim_files(OS_DISK, log_folder(root, PLACE._replace(node=node)))}


def archived_files(objects: Objects) -> dict[str, int]:
    return ArchivedContents(objects, *WHERE).sizes()


def file_of(contents: kvwal.Contents, name: str) -> str:
    from kvwal.content.claim import claim_of

    entry = contents.entry(name)
    assert entry is not None
    return claim_of(entry).file


def test_bytes_are_in_the_archive_when_their_names_are(store: kvwal.Store, objects: Objects) -> None:
    contents = store.content("files")
    contents.put("small", b"a few bytes")
    contents.put("large", LARGE)
    store.archive()
    sizes = archived_files(objects)
    assert sizes == {file_of(contents, "small"): len(b"a few bytes"), file_of(contents, "large"): len(LARGE)}
    assert verify(objects).findings == []
    contents.put("later", b"goes into another file: the first one is archived")
    assert file_of(contents, "later") not in sizes


def test_an_archive_that_begins_with_a_snapshot_has_its_bytes(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.content("files").put("plan", b"before there was an archive")
        store.checkpoint()
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        store.content("files").put("later", b"with the archive")
        store.archive()
    assert verify(open_objects(str(tmp_path / "archive"))).findings == []
    kvwal.restore(str(tmp_path / "archive"), tmp_path / "restored", node="new")
    with kvwal.open(tmp_path / "restored", archive=tmp_path / "archive") as store:
        assert store.content("files").get("plan") == b"before there was an archive"


def test_replaced_bytes_go_with_a_checkpoint_and_history_reads_them_from_the_archive(
    tmp_path: Path, store: kvwal.Store, objects: Objects
) -> None:
    contents = store.content("files")
    first = contents.put("report", LARGE)
    old = file_of(contents, "report")
    contents.put("report", LARGE[::-1])
    store.checkpoint()
    assert old in local_files(tmp_path / "root"), "it is not archived yet, and the log still names it"
    store.archive()
    assert old not in local_files(tmp_path / "root"), "the last segment that named it is gone"
    assert contents.get("report") == LARGE[::-1]
    assert contents.at(first).get("report") == LARGE
    assert old in archived_files(objects)


def test_without_an_archive_replaced_bytes_go_with_the_next_checkpoint(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        contents = store.content("files")
        contents.put("report", LARGE)
        contents.delete("report")
        contents.put("kept", LARGE)
        store.checkpoint()
        contents.put("other", b"something to checkpoint")
        store.checkpoint()
        assert local_files(tmp_path / "root") == {file_of(contents, "kept"), file_of(contents, "other")}
        assert contents.get("kept") == LARGE


def test_the_last_bytes_of_a_mostly_dead_file_are_written_again(tmp_path: Path, store: kvwal.Store) -> None:
    contents = store.content("files")
    for number in range(20):
        contents.put(f"dead/{number}", LARGE[:100_000])
    contents.put("alive", b"small", {"kind": "kept"})
    contents.copy("alive", "twin")
    old = file_of(contents, "alive")
    for number in range(20):
        contents.delete(f"dead/{number}")
    store.archive()
    store.checkpoint()
    assert file_of(contents, "alive") != old
    assert file_of(contents, "alive") == file_of(contents, "twin"), "copies share their bytes as before"
    assert (contents.get("alive"), contents.stat("alive").attributes) == (b"small", {"kind": "kept"})
    store.archive()
    store.checkpoint()
    assert old not in local_files(tmp_path / "root")
    assert (contents.get("alive"), contents.get("twin")) == (b"small", b"small")


def test_a_damaged_content_does_not_keep_others_in_a_mostly_dead_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=None) as store:
        contents = store.content("files")
        for name in ("a damaged", "b sound"):
            contents.put(name, name.encode())
        for number in range(20):
            contents.put(f"dead/{number}", LARGE[:100_000])
    file = file_of(contents, "a damaged")
    path = log_folder(root, PLACE) / "content" / file[:2] / file
    path.write_bytes(b"?" + path.read_bytes()[1:])
    with kvwal.open(root, archive=None) as store:
        contents = store.content("files")
        for number in range(20):
            contents.delete(f"dead/{number}")
        store.checkpoint()
        assert (file_of(contents, "a damaged") == file, file_of(contents, "b sound") == file) == (True, False)
        assert "'a damaged'" in store.stats()["businesses"]["files"]["maintenance"]["clean"]


def test_a_content_that_is_written_when_a_checkpoint_looks_keeps_its_bytes(tmp_path: Path, store: kvwal.Store) -> None:
    contents = store.content("files")
    contents.put("first", b"something to checkpoint")
    with contents.create("slow") as out, store.business("files").transaction() as block:
        out.write(LARGE)
        block.content().put("in the block", b"durable, and not named yet")
        store.checkpoint()
        store.archive()
        store.checkpoint()
    assert contents.get("slow") == LARGE
    assert contents.get("in the block") == b"durable, and not named yet"


def test_what_a_killed_program_left_is_collected(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=None) as store:
        store.content("files").put("named", b"with its name")
    folder = log_folder(root, PLACE) / "content" / "ab"
    folder.mkdir()
    (folder / ("ab" * 16)).write_bytes(b"durable, and its name was never logged")
    (folder / f"{'ab' * 15}ac.partial").write_bytes(b"half of")
    with kvwal.open(root, archive=None) as store:
        contents = store.content("files")
        contents.put("more", b"something to checkpoint")
        store.checkpoint()
        assert list(folder.iterdir()) == []
        assert contents.get("named") == b"with its name"


def test_a_restore_is_ready_at_once_and_its_bytes_come_as_asked_for(tmp_path: Path, store: kvwal.Store) -> None:
    contents = store.content("files")
    contents.put("large", LARGE)
    contents.put("small", b"a few bytes")
    store.archive()
    restored, archive = tmp_path / "restored", str(tmp_path / "archive")
    kvwal.restore(archive, restored, node="new")
    assert local_files(restored, "new") == set()
    with kvwal.open(restored, node="new", archive=archive) as again:
        found = again.content("files")
        assert [content.name for content in found.list()] == ["large", "small"]
        with found.open("large", offset=1000, length=10) as file:
            assert file.read() == LARGE[1000:1010]
        assert local_files(restored, "new") == set(), "a part is read by range"
        assert found.get("large") == LARGE
        assert local_files(restored, "new") == {file_of(found, "large")}
        again.checkpoint()
        assert found.get("small") == b"a few bytes"


@pytest.mark.breaks("contents", reason="its claim file is deleted, in the archive, too")
def test_a_content_that_is_missing_in_the_archive_is_named_and_the_rest_works(
    tmp_path: Path, store: kvwal.Store, objects: Objects
) -> None:
    contents = store.content("files")
    contents.put("lost", LARGE)
    contents.put("found", b"a few bytes")
    store.archive()
    lost = file_of(contents, "lost")
    (tmp_path / "archive" / "/".join(WHERE) / "_content" / lost[:2] / lost).unlink()
    (fault,) = verify(objects).findings
    assert (fault.kind, "'lost'" in fault.text) == ("content", True)
    kvwal.restore(str(tmp_path / "archive"), tmp_path / "restored", node="new")
    with kvwal.open(tmp_path / "restored", node="new", archive=tmp_path / "archive") as again:
        with pytest.raises(kvwal.ContentMissing, match=r"'lost'.*neither beside the log nor in the archive"):
            again.content("files").get("lost")
        assert again.content("files").get("found") == b"a few bytes"


def test_damaged_bytes_are_told_by_name_and_mended_from_the_archive(tmp_path: Path, store: kvwal.Store) -> None:
    contents = store.content("files")
    contents.put("report", LARGE)
    store.archive()
    file = file_of(contents, "report")
    path = log_folder(tmp_path / "root", PLACE) / "content" / file[:2] / file
    path.write_bytes(LARGE[:-1] + b"?")
    with pytest.raises(kvwal.ContentDamaged, match=rf"'report': its bytes are not.*{file}, from byte 0 on"):
        contents.check("report")
    assert contents.get("report") == LARGE, "a read takes the bytes of the archive"
    assert contents.repair("report")
    contents.check("report")
    assert not contents.repair("report")


def test_damaged_bytes_without_a_copy_are_an_error_and_never_given(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        contents = store.content("files")
        contents.put("report", LARGE)
        contents.put("sound", b"whole")
        file = file_of(contents, "report")
        path = log_folder(tmp_path / "root", PLACE) / "content" / file[:2] / file
        path.write_bytes(LARGE[:-1] + b"?")
        for read in (contents.get, contents.repair, lambda name: contents.open(name).read()):
            with pytest.raises(kvwal.ContentDamaged):
                read("report")
        with pytest.raises(kvwal.ContentDamaged):
            contents.export("report", tmp_path / "exported")
        assert not (tmp_path / "exported").exists()
        assert contents.get("sound") == b"whole"


def test_what_no_entry_names_leaves_the_archive_when_history_has_passed_it(
    store: kvwal.Store, objects: Objects
) -> None:
    contents = store.content("files")
    contents.put("gone", LARGE)
    contents.put("kept", b"a few bytes")
    gone = file_of(contents, "gone")
    store.archive()
    contents.delete("gone")
    contents.put("kept too", b"some more")
    store.archive()
    assert gc_contents(objects, *WHERE, now_ms=LATER_MS, grace_ms=0) == [], "the history still has it"
    rewrite(objects, PLACE, now_ms=LATER_MS, history_ms=1000, force=True)
    gc(objects, PLACE, now_ms=LATER_MS, grace_ms=0)
    (removed,) = gc_contents(objects, *WHERE, now_ms=LATER_MS, grace_ms=0)
    assert removed.endswith(gone)
    assert verify(objects).findings == []
    assert contents.get("kept") == b"a few bytes"


def test_a_file_that_is_archived_before_its_names_is_not_collected(
    tmp_path: Path, store: kvwal.Store, objects: Objects
) -> None:
    store.content("files").put("first", b"archived")
    store.archive()
    early = tmp_path / "early"
    early.write_bytes(b"put, and then the archiver was killed")
    ArchivedContents(objects, *WHERE).put("ee" * 16, early)
    assert gc_contents(objects, *WHERE, now_ms=LATER_MS, grace_ms=0) == []
    assert "ee" * 16 in archived_files(objects)


def test_contents_live_in_a_bucket(tmp_path: Path) -> None:
    server = s3.server()
    url = f"{s3.bucket(server)}/prefix"
    options = server.options()
    with kvwal.open(tmp_path / "root", archive=url, storage_options=options) as store:
        contents = store.content("files")
        contents.put("large", LARGE)
        contents.put("small", b"a few bytes")
        store.archive()
    with kvwal.open(tmp_path / "new", node="new", archive=url, storage_options=options) as store:
        store.map("other")["key"] = 1
    kvwal.restore(url, tmp_path / "restored", node="newer", storage_options=options)
    with kvwal.open(tmp_path / "restored", node="newer", archive=url, storage_options=options) as store:
        with store.content("files").open("large", offset=3, length=4) as file:
            assert file.read() == LARGE[3:7]
        assert store.content("files").get("large") == LARGE
        assert store.content("files").get("small") == b"a few bytes"
    assert verify(open_objects(url, options)).findings == []


def test_bytes_that_only_an_old_part_of_the_log_names_go_once_a_snapshot_covers_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaning between two parts of a checkpoint leaves them, and nothing is changed after that."""
    monkeypatch.setattr("kvwal.store.maintenance.JOB_BYTES", 1)
    with kvwal.open(tmp_path / "root", archive=None, settings=kvwal.Settings(checkpoint_bytes=1)) as store:
        contents = store.content("files")
        contents.put("report", LARGE)
        store.checkpoint()
        old = file_of(contents, "report")
        maintenance = store._engine.businesses["files"].maintenance
        store.map("files")["k"] = 1
        store._run(maintenance.log.rotate)
        contents.delete("report")
        store._run(maintenance._checkpoint_next)
        assert old in local_files(tmp_path / "root"), "the snapshot names it still"
        store._run(maintenance._checkpoint_next)
        assert old not in local_files(tmp_path / "root")


def test_bytes_that_came_back_for_the_past_go_again(tmp_path: Path) -> None:
    """A reader gets a deleted content from the archive. Nobody changes a content after that, so no change lets its file go."""
    root, settings = tmp_path / "root", kvwal.Settings(content_keep_seconds=0)
    with kvwal.open(root, archive=tmp_path / "archive", settings=settings) as store:
        contents = store.content("files")
        written = contents.put("large", LARGE)
        store.archive()
        contents.delete("large")
        store.archive()
        for _ in range(2):
            store.checkpoint()
        assert local_files(root) == set()
        assert contents.at(written).get("large") == LARGE
        assert len(local_files(root)) == 1
        store.map("files")["key"] = "what the next checkpoint has"
        store.checkpoint()
        assert local_files(root) == set()
        assert contents.at(written).get("large") == LARGE
