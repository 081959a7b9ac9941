"""Large values and everything that copies a store: archive, gc, restore, backup, merge, repair, SQL, Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.codecs import registry
from kvwal.content.claim import claim_of, has_claim
from kvwal.content.folder import claim_files
from kvwal.errors import ContentMissing
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import parse_location
from kvwal.log.files.names import log_folder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.beside.contents import check_contents
from kvwal.store.root_nodes.merge import MergePorts, merge_nodes
from kvwal_archive.contents.claims import named_files
from kvwal_archive.contents.collect import gc_contents
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import Place
from kvwal_archive.maintenance.compaction import gc, rewrite
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.verify import verify
from tests.support.cli import kvwal as command

WHERE = ("default", "local", "jobs")
PLACE = Place(*WHERE, "local")
SETTINGS = kvwal.Settings(inline_bytes=1000)
LARGE = bytes(range(256)) * 100
TEXT = {"text": "x" * 5000, "number": 1}
VALUES = {"a": LARGE, "b": TEXT, "small": 1}
LATER_MS = 1 << 42


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive", settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path / "archive"))


def local_files(root: Path, node: str = "local") -> set[str]:
    return {file.name for file in claim_files(OS_DISK, log_folder(root, PLACE._replace(node=node)))}


def file_of(jobs: kvwal.Map, key: Any) -> str:
    entry = jobs._find(key)
    assert entry is not None
    assert has_claim(entry)
    return claim_of(entry).file


def fill(store: kvwal.Store) -> kvwal.Map:
    jobs = store.map("jobs")
    jobs.put_many(VALUES)
    store.queue("jobs").put_many([LARGE[1:], "item"])
    return jobs


def test_bytes_are_in_the_archive_before_their_entries_and_an_object_has_none_of_them(
    store: kvwal.Store, objects: Objects
) -> None:
    jobs = fill(store)
    store.archive()
    assert set(ArchivedContents(objects, *WHERE).sizes()) == {file_of(jobs, "a")} == named_files(objects, WHERE).files
    assert verify(objects).findings == []
    with open_reader(parse_location(OS_DISK, objects.url), Names("default", "local")) as reader:
        business = reader.read_business("jobs")
        encoded = {key.encode(): registry.encode_value(value)[0] for key, value in VALUES.items()}
        assert {entry.key: entry.value for entry in business.entries()} == encoded
        found = business.find("str", b"a")
        assert found is not None
        assert found.value == LARGE
        assert [entry.value for entry in business.of_structure("queue") or ()] == [LARGE[1:], b"item"]
        assert [entry.value for entry in business.history("str", b"a")] == [LARGE]


def test_a_restore_brings_large_values_along(store: kvwal.Store, tmp_path: Path) -> None:
    fill(store)
    store.close(archive=True)
    kvwal.restore(str(tmp_path / "archive"), tmp_path / "restored", node="new")
    assert len(local_files(tmp_path / "restored", "new")) == 1
    with kvwal.open(tmp_path / "restored", archive=tmp_path / "archive") as restored:
        jobs = restored.map("jobs")
        assert dict(jobs) == VALUES
        assert restored.queue("jobs").take_many(5) == [LARGE[1:], "item"]
    kvwal.restore(str(tmp_path / "archive"), tmp_path / "alone", node="other")
    with kvwal.open(tmp_path / "alone", archive=None) as alone:
        assert dict(alone.map("jobs")) == VALUES


@pytest.mark.breaks("contents", reason="the archive lacks the bytes of a value")
def test_a_restore_goes_on_without_bytes_that_the_archive_lacks(store: kvwal.Store, tmp_path: Path) -> None:
    jobs = fill(store)
    file = file_of(jobs, "a")
    store.close(archive=True)
    (path,) = (tmp_path / "archive").rglob(file)
    path.unlink()
    kvwal.restore(str(tmp_path / "archive"), tmp_path / "restored", node="new")
    with kvwal.open(tmp_path / "restored", archive=None) as restored:
        assert restored.map("jobs")["small"] == 1
        with pytest.raises(ContentMissing, match="'a'"):
            restored.map("jobs").get("a")


def test_what_history_has_passed_goes_from_both_places_and_nothing_else(
    store: kvwal.Store, objects: Objects, tmp_path: Path
) -> None:
    jobs = fill(store)
    store.archive()
    old = file_of(jobs, "a")
    jobs.put_many({"a": "small", "b": TEXT})
    store.queue("jobs").take_many(5)
    for _ in range(3):
        store.archive()
        store.checkpoint()
    kept = file_of(jobs, "b")
    assert local_files(tmp_path / "root") == {kept}
    assert [entry.value for entry in jobs.history("a")] == [b"small", LARGE], "the archive has the bytes of history"
    assert gc_contents(objects, *WHERE, now_ms=LATER_MS, grace_ms=0) == []
    rewrite(objects, PLACE, now_ms=LATER_MS, history_ms=0, force=True)
    gc(objects, PLACE, now_ms=LATER_MS, grace_ms=0)
    assert gc_contents(objects, *WHERE, now_ms=LATER_MS, grace_ms=0) == [f"default/local/jobs/_content/{old[:2]}/{old}"]
    assert set(ArchivedContents(objects, *WHERE).sizes()) == {kept}
    assert (jobs["b"], verify(objects).findings) == (TEXT, [])


def test_a_backup_has_the_bytes(store: kvwal.Store, tmp_path: Path) -> None:
    fill(store)
    store.backup(tmp_path / "backup")
    with kvwal.open(tmp_path / "backup", archive=None) as copy:
        assert dict(copy.map("jobs")) == VALUES
        assert copy.queue("jobs").take() == LARGE[1:]


def test_a_merge_of_nodes_takes_the_bytes_along(tmp_path: Path) -> None:
    for node in ("one", "two"):
        with kvwal.open(tmp_path / "root", node=node, archive=None, settings=SETTINGS) as store:
            store.map("jobs")[node] = LARGE + node.encode()
    with kvwal.open(tmp_path / "root", read_only=True, archive=None) as reader:
        assert dict(reader.map("jobs")) == {"one": LARGE + b"one", "two": LARGE + b"two"}
    root, target = tmp_path / "root", PLACE._replace(node="one")
    merge_nodes(MergePorts(OS_DISK, SYSTEM), root, target, ["two"], lambda *_: None)
    with kvwal.open(root, archive=None) as reader:
        assert dict(reader.map("jobs")) == {"one": LARGE + b"one", "two": LARGE + b"two"}


@pytest.mark.breaks("contents", reason="its bytes are damaged")
def test_damage_is_found_told_by_its_key_and_mended_from_the_archive(
    store: kvwal.Store, objects: Objects, tmp_path: Path
) -> None:
    jobs = fill(store)
    store.archive()
    (path,) = (tmp_path / "root").rglob("content/*/*")
    path.write_bytes(b"?" + path.read_bytes()[1:])
    found = check_contents(OS_DISK, tmp_path / "root", PLACE, SYSTEM.wall_ms(), objects, whole=True)
    assert [one.problem for one in found if one.problem] == [
        "the value of 'a': 25,600 bytes from byte 0 on are not those that were written."
    ]
    assert jobs["a"] == LARGE, "the archive has the right bytes"


def test_the_command_line_shows_values(store: kvwal.Store, tmp_path: Path) -> None:
    fill(store)
    store.map("jobs")["words"] = "w" * 3000
    store.close(archive=True)
    for location in (tmp_path / "root", tmp_path / "archive"):
        assert command("get", location, "jobs", "words").out == "w" * 3000 + "\n"
        assert command("get", location, "jobs", "b").out == json.dumps(TEXT, separators=(",", ":")) + "\n"
        assert "w" * 30 in command("history", location, "jobs", "words").out
        lines = [json.loads(line) for line in command("export", location, "jobs").out.splitlines()]
        assert json.loads({line["key"]: line["value"] for line in lines}["b"]) == TEXT
        assert "content:" not in command("scan", location, "jobs").out
