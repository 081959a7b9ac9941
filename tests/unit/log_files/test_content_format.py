"""Format 3, and docs/format/content.md: the page says what the code does, the golden log is read for ever, and a log has the
format from its first content on.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import kvwal
from kvwal.archiver.kept_contents import KEPT_FILE
from kvwal.content.claim import Claim, claim_of, is_claim_file
from kvwal.content.containers.record import RECORD
from kvwal.content.folder import claim_files, claim_path
from kvwal.content.shared import FILE_BYTES
from kvwal.content.writer import SHARED_BYTES
from kvwal.log.files.format import FORMAT, WITH_CONTENT, WITH_QUEUES
from kvwal.log.files.names import CONTENT_FOLDER, find_places, log_folder, partial_name, segment_name, snapshot_name
from kvwal.log.reader import SegmentReader
from kvwal.ports.disk import OS_DISK
from kvwal.structures.content.names import MOST_ATTRIBUTES, MOST_NAME, content_structure, key_class_of
from kvwal_archive.layout import Place, claim_file_key
from tests.support.disk.faults import START_MS, FakeClock, open_store
from tests.support.invariants.formats import unmarked
from tests.support.log.store import open_with_archiver

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PAGE = (ROOT / "docs" / "format" / "content.md").read_text()
GOLDEN = ROOT / "tests" / "golden" / "log-6"
GOLDEN_PLACE = Place("spark", "local", "jobs", "node-1")
PLACE = Place("default", "local", "work", "local")
SHARED = "5eed5eed5eed5eed5eed5eed5eed5eed"


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.split(f"## {title}\n")[1], flags=re.MULTILINE)[0]


def rows(title: str) -> list[list[str]]:
    lines = re.findall(r"^\|.*", section(title), re.MULTILINE)[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def formats(root: Path, place: Place = PLACE) -> dict[str, int]:
    """The format of each file of a log."""
    folder = log_folder(root, place)
    assert not list(unmarked(OS_DISK, folder))
    paths = sorted(folder.glob("*.[ws]*"))
    return {path.name: SegmentReader(path, path.read_bytes()).header.format for path in paths}


def golden(root: Path) -> Path:
    folder = log_folder(root, GOLDEN_PLACE)
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return folder


def test_the_names() -> None:
    found = re.findall(r"^    (\S+)  ", section("Names"), re.MULTILINE)
    whole, partial, kept, containers, elsewhere, archived = found
    assert claim_path(Path(), SHARED) == Path(whole) == Path(elsewhere)
    assert (kept, containers) == (f"{CONTENT_FOLDER}/{KEPT_FILE}", f"{CONTENT_FOLDER}/{RECORD}")
    assert partial == partial_name(whole)
    assert claim_file_key("n", "c", "b", SHARED) == f"n/c/b/_content/{archived}"
    assert is_claim_file(SHARED)
    assert not is_claim_file(SHARED.upper())


def test_the_limits() -> None:
    assert f"up to {SHARED_BYTES} bytes" in section("Claim file")
    assert f"From {FILE_BYTES} bytes on" in section("Claim file")
    assert f"1 to {MOST_NAME} bytes" in section("Entry")
    assert f"at most {MOST_ATTRIBUTES} bytes" in section("Claim")


def test_the_fields_of_a_claim_and_of_an_entry() -> None:
    assert [tuple(row[:2]) for row in rows("Claim")] == list(Claim.__annotations__.items())
    classes = [key_class_of(content_structure(name)) for name in ("", "<name>".strip("<>"))]
    told = rows("Entry")[1][1].replace("<name>", "name")
    assert all(f"`{name}`".strip("`") in told for name in classes)


def test_the_worked_example_is_the_golden_log(tmp_path: Path) -> None:
    golden(tmp_path)
    (value,) = re.findall(r"^```json\n(.*)\n```", section("A worked example"), re.MULTILINE)
    with kvwal.open(tmp_path, namespace="spark", archive=None, read_only=True) as store:
        entry = store.business("jobs").content("files").entry("report")
    assert entry is not None
    assert entry.value == value.encode()
    claim = claim_of(entry)
    assert claim == Claim(**json.loads(value))
    stretch = claim_path(GOLDEN, claim.file).read_bytes()[claim.offset : claim.offset + claim.length]
    assert stretch == b"all is well\n"


@pytest.mark.parametrize("gone", [[], [snapshot_name(8)]], ids=["all", "segments"])
def test_the_golden_log_with_contents_is_still_read(tmp_path: Path, gone: list[str]) -> None:
    folder = golden(tmp_path)
    assert formats(tmp_path, GOLDEN_PLACE) == {
        segment_name(1): FORMAT, segment_name(2): WITH_QUEUES, segment_name(3): WITH_CONTENT,
        snapshot_name(8): WITH_CONTENT, segment_name(9): WITH_CONTENT,
    }  # fmt: skip
    for name in gone:
        (folder / name).unlink()
    with open_store(tmp_path, clock=FakeClock(START_MS + 99), namespace="spark", node="node-1") as store:
        jobs = store.business("jobs")
        files = jobs.content("files")
        large = bytes(range(256)) * 4
        assert {name: files.get(name) for name in files} == {
            "log/1": large, "log/é": large, "new": b"new", "report": b"all is well\n",
        }  # fmt: skip
        assert files.stat("report").attributes == {"codec": "", "of": "job 1"}
        assert dict(jobs.map()) == {"state": "done"}
        assert list(jobs.queue("todo").browse()) == ["a"]
        assert store.stats()["businesses"]["jobs"]["last_sequence"] == 9


def test_a_log_has_the_format_from_its_first_content_on(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        work = store.business("work")
        work.map()["key"] = "content:str"
        work.map("content")["named"] = 1
        assert formats(tmp_path) == {segment_name(1): FORMAT}
        work.queue().put("item")
        work.content().put("a", b"a")
        work.queue().put("item")
        work.map()["key"] = 2
        assert list(formats(tmp_path).values()) == [FORMAT, WITH_QUEUES, WITH_CONTENT]
        store.checkpoint()
    with open_with_archiver(tmp_path, None) as store:
        work = store.business("work")
        work.map()["key"] = 3
        store.checkpoint()
        assert work.content().get("a") == b"a"
    assert set(formats(tmp_path).values()) == {WITH_CONTENT}


def test_a_delete_of_a_content_needs_the_format_too(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        work = store.business("work")
        with work.transaction() as t:
            t.content().delete("never there")
            t.map()["key"] = 1
    assert set(formats(tmp_path).values()) == {WITH_CONTENT}


def test_a_restored_log_has_the_format(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    with open_with_archiver(root, archive) as store:
        store.content("work").put("a", b"a")
        store.map("work")["key"] = 1
        store.archive()
    kvwal.restore(archive, tmp_path / "restored")
    (place,) = find_places(OS_DISK, tmp_path / "restored")
    assert set(formats(tmp_path / "restored", place).values()) == {WITH_CONTENT}
    with open_with_archiver(tmp_path / "restored", archive) as store:
        assert store.content("work").get("a") == b"a"


def test_a_change_of_formats_leaves_one_claim_file(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        c = store.content("work")
        for number in range(20):
            c.put(f"{number}", b"%d" % number)
    (file,) = claim_files(OS_DISK, log_folder(tmp_path, PLACE))
    assert file.path.read_bytes().startswith(b"0123456789101112")
