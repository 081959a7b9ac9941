"""Every kind of location gives one object for a business, and the same answers of it: files, archive, and both at a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.entry import DataEntry
from kvwal.location.moments import MomentReader
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import ArchiveLocation, FolderLocation
from kvwal.location.readers import LocationReader
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.structures.map.view import KeyBounds
from kvwal_archive.parquet.key_ranges import KeyRange

LATER = 1 << 62


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with its archive: the map of two nodes."""
    root = tmp_path_factory.mktemp("root")
    for node in ("one", "two"):
        with kvwal.open(root, node=node) as store:
            jobs = store.map("jobs")
            jobs.put_many({f"{letter}-{node}": number for number, letter in enumerate("abcdé")})
            jobs.put_many({7: node, b"bytes": node, "shared": node, "gone": node})
            del jobs["gone"]
            store.map("empty")["key"] = 1
            del store.map("empty")["key"]
            store.archive()
    return root


@pytest.fixture(params=["folder", "archive", "folder then", "archive then"])
def reader(request: pytest.FixtureRequest, root: Path) -> Iterator[LocationReader]:
    kind, _, then = request.param.partition(" ")
    location = FolderLocation(root) if kind == "folder" else ArchiveLocation(str(root / "_archive"))
    with open_reader(location, Names()) as opened:
        yield MomentReader(opened, LATER, lambda name: None) if then else opened


READS: dict[str, Callable[[BusinessReader], Any]] = {
    "all": lambda jobs: list(jobs.entries()),
    "prefix": lambda jobs: list(jobs.entries("b")),
    "no prefix": lambda jobs: list(jobs.entries("")),
    "prefix of letters": lambda jobs: list(jobs.entries("é")),
    "range": lambda jobs: list(jobs.within(KeyBounds("str", b"b", b"d"))),
    "open range": lambda jobs: list(jobs.within(KeyBounds("str", b"b"))),
    "the last ones": lambda jobs: list(jobs.within(KeyBounds(), reverse=True, limit=3)),
    "the last ones of a range": lambda jobs: list(jobs.within(KeyBounds("str", b"b", b"d"), reverse=True, limit=3)),
    "the first ones": lambda jobs: list(jobs.within(KeyBounds(), limit=3)),
    "the first page": lambda jobs: jobs.page(KeyBounds(), None, 3),
    "a page after a key": lambda jobs: jobs.page(KeyBounds(), ("int", b"\x81\x07"), 4),
    "a page of a range": lambda jobs: jobs.page(KeyBounds("str", b"b", b"d"), ("str", b"b-one"), 2),
    "spans": lambda jobs: list(jobs.spans([(b"a", b"b"), (b"shared", b"shared\0")])),
    "select": lambda jobs: list(jobs.select(lambda key, key_class: key_class != "str" or key == b"shared")),
    "count": lambda jobs: jobs.count(),
    "find": lambda jobs: [jobs.find("str", key) for key in (b"shared", b"gone", b"never")],
    "find an int": lambda jobs: jobs.find("int", b"\x81\x07"),
    "history": lambda jobs: jobs.history("str", b"gone"),
    "as of, of a range": lambda jobs: [
        entry.public()
        for entry in jobs.as_of(LATER, within=KeyRange(("str", b"b"), ("str", b"d"))).ordered("str", b"c")
    ],
    "as of": lambda jobs: [entry.public() for entry in jobs.as_of(LATER).all_ordered()],
}


@pytest.mark.parametrize("read", READS)
def test_every_reader_of_a_business_gives_the_same_answer(root: Path, reader: LocationReader, read: str) -> None:
    with open_reader(FolderLocation(root), Names()) as files:
        expected = READS[read](files.read_business("jobs"))
    assert expected
    assert READS[read](reader.read_business("jobs", logged=True)) == expected


def test_a_business_that_is_not_there_is_refused_when_it_is_asked_for(reader: LocationReader) -> None:
    with pytest.raises(kvwal.ConfigError, match=r"no map 'jobz' \(there are: jobs, empty\)"):
        reader.read_business("jobz")


def test_a_moment_is_one_in_every_answer(root: Path) -> None:
    with open_reader(FolderLocation(root), Names()) as files:
        first = files.read_business("jobs").history("str", b"gone")[-1].timestamp
        then = MomentReader(files, first, lambda name: None).read_business("jobs")
        assert {entry.timestamp <= first for entry in (*then.entries(), *then.history("str", b"gone"))} == {True}
        assert [entry.public() for entry in then.as_of(LATER).all_ordered()] == list(then.entries())


def test_a_business_that_was_empty_is_told_once(root: Path) -> None:
    told: list[str] = []
    with open_reader(FolderLocation(root), Names()) as files:
        empty = MomentReader(files, LATER, told.append).read_business("empty")
        assert (empty.find("str", b"key"), empty.count(), told) == (None, 0, [])
        found: list[DataEntry] = [
            *empty.entries(),
            *empty.within(KeyBounds()),
            *empty.spans([(b"a", b"b"), (b"c", b"d")]),
        ]
        assert (found, told) == ([], ["empty"])
