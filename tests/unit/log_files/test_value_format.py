"""The format of large values is the page docs/format/content.md, and files with one are those that an older kvwal refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kvwal
from kvwal.config import Settings
from kvwal.content.claim import may_stand_beside
from kvwal.entry import CLAIMED, Entry
from kvwal.log.files.format import FORMAT, WITH_CONTENT, WITH_LARGE_VALUES, format_of
from kvwal.log.files.names import log_folder, segment_name, snapshot_name
from kvwal.log.reader import SegmentReader
from kvwal.ports.disk import OS_DISK
from kvwal_archive.contents import claims
from kvwal_archive.layout import Place
from tests.support.disk.faults import START_MS, FakeClock, open_store
from tests.support.invariants.formats import unmarked

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PAGE = (ROOT / "docs" / "format" / "content.md").read_text()
GOLDEN = ROOT / "tests" / "golden" / "log-7"
PLACE = Place("spark", "local", "jobs", "node-1")
TEXT = {"text": "x" * 300, "number": 1}


def formats(root: Path, place: Place) -> dict[str, int]:
    folder = log_folder(root, place)
    assert not list(unmarked(OS_DISK, folder))
    paths = sorted(folder.glob("*.[ws]*"))
    return {path.name: SegmentReader(path, path.read_bytes()).header.format for path in paths}


def golden(root: Path) -> None:
    folder = log_folder(root, PLACE)
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))


def test_the_mark_of_a_large_value() -> None:
    section = PAGE.split("## Large values\n")[1].split("\n## ")[0]
    assert f"`{CLAIMED}` and the class of the bytes: `{CLAIMED}json`" in section
    assert f"format {WITH_LARGE_VALUES}" in section
    assert claims.CLAIMED == CLAIMED


def test_every_later_version_reads_the_golden_log(tmp_path: Path) -> None:
    golden(tmp_path)
    assert formats(tmp_path, PLACE) == {
        segment_name(1): FORMAT, segment_name(2): WITH_LARGE_VALUES, snapshot_name(4): WITH_LARGE_VALUES,
        segment_name(5): WITH_LARGE_VALUES,
    }  # fmt: skip
    names = {"namespace": "spark", "node": "node-1"}
    with open_store(tmp_path, clock=FakeClock(), **names) as store:
        jobs = store.map("jobs")
        assert dict(jobs) == {"state": "begun", "plan": TEXT, "log": bytes(range(256)) * 2, "last": "z" * 300}
        left = jobs.ttl("log")
        assert left is not None
        assert left > 1e6
        assert store.business("jobs").queue("todo").peek() == "y" * 300
    with kvwal.open(tmp_path, read_only=True, archive=None, **names) as store:
        assert store.map("jobs")["plan"] == TEXT


@pytest.mark.parametrize(
    ("key_class", "beside"),
    [
        ("str", True), ("map/a:int", True), ("queue:int", True), ("queue/a:int", True), ("queue:_options", False),
        ("content:str", False), ("provenance:_event", False), ("intent:str", False), ("schema:str", False),
        ("counter:str", False), ("dropped:none", False),
    ],
)  # fmt: skip
def test_only_values_of_maps_and_items_stand_beside(key_class: str, beside: bool) -> None:
    assert may_stand_beside(key_class) == beside


def test_the_format_of_entries() -> None:
    def entry(key_class: str, value_class: str) -> Entry:
        return Entry(b"k", key_class, b"v", value_class, False, START_MS << 16)

    assert format_of([]) == format_of([entry("str", "bytes")]) == FORMAT
    assert format_of([entry("content:str", "json"), entry("str", "json")]) == WITH_CONTENT
    assert format_of([entry("content:str", "json"), entry("str", "content:json")]) == WITH_LARGE_VALUES


def test_the_format_goes_with_the_log_where_it_is_copied(tmp_path: Path) -> None:
    place = Place("default", "local", "jobs", "local")
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive", settings=Settings(inline_bytes=100)) as store:
        store.map("jobs")["a"] = "x" * 200
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        store.map("jobs")["b"] = "small"
        store.checkpoint()
    assert set(formats(tmp_path / "root", place).values()) == {WITH_LARGE_VALUES}
    kvwal.restore(str(tmp_path / "archive"), tmp_path / "restored", node="new")
    assert WITH_LARGE_VALUES in formats(tmp_path / "restored", place._replace(node="new")).values()
