"""What kvwal keeps for itself in a log, and what a destroyed map held: no reader shows it as an entry of the map."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kvwal
from kvwal.codecs import registry
from kvwal.entry import AWAY, Ended, Entry, time_mark, timestamps_within
from kvwal.history.reads.pinned_log import pin_log
from kvwal.key_class import DROPPED, INTENT, is_of_map
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import parse_location
from kvwal.location.readers import LocationReader
from kvwal.log.unlocked.sinks import LatestOfEach
from kvwal.ports.disk import OS_DISK
from kvwal.spark.datasource.options import read_options
from kvwal.spark.datasource.source import KvwalReader
from kvwal.structures.map.map import submit_entries
from kvwal_archive.layout import Place
from kvwal_archive.parquet.key_ranges import KeyRange
from tests.support.cli import Ran
from tests.support.cli import kvwal as run

LATEST = {"b": 2, 7: "int"}
"""The map of the node `x`, which was destroyed after `a` and `gone` were put."""
OTHER = {"d": 4, "gone": 5}
"""The same of the node `y`, which put `gone` again."""
INTERNAL = [
    Entry(b"t1", INTENT, b"\x90", "bytes", False, 0),
    Entry(b"7", "schema:int64", b"x", "bytes", False, 0),
    Entry(b"new", "queue:str", b"x", "str", False, 0),
]


class Written(NamedTuple):
    """A root, and the timestamp of the last entry of the node `x` before its mark."""

    root: Path
    before: int


def write(root: Path, node: str, before: dict[Any, Any], after: dict[Any, Any], *, checkpoints: bool) -> int:
    """A log as a member of a cluster writes it, and returns the timestamp of its last entry before the mark."""
    with kvwal.open(root, node=node, flush="os") as store:
        jobs = store.map("jobs")
        last = jobs.put_many(before)
        submit_entries(jobs, [Entry(b"", DROPPED, b"", "", False, 0)]).result()
        submit_entries(jobs, [*INTERNAL, time_mark()]).result()
        if checkpoints:
            store.checkpoint()
        jobs.put_many(after)
        store.archive()
    return last


@pytest.fixture(scope="module", params=["tail", "snapshot"])
def one(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """One node's log, the mark in its segments or in its snapshot."""
    root = tmp_path_factory.mktemp("one")
    before = write(root, "x", {"a": 1, "gone": 1}, LATEST, checkpoints=request.param == "snapshot")
    return Written(root, before)


@pytest.fixture(scope="module", params=["tail", "snapshot"])
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Two nodes' logs, each with its own mark."""
    root = tmp_path_factory.mktemp("two")
    checkpoints = request.param == "snapshot"
    before = write(root, "x", {"a": 1, "gone": 1}, LATEST, checkpoints=checkpoints)
    write(root, "y", {"c": 3}, OTHER, checkpoints=checkpoints)
    return Written(root, before)


def opened(where: Path, node: str | None = None) -> LocationReader:
    """A reader of a location."""
    return open_reader(parse_location(OS_DISK, str(where)), Names("default", "local", node)).__enter__()


def decoded(entries: Iterator[Any]) -> dict[Any, Any]:
    decode = registry.decode
    return {decode(e.key, e.key_class): decode(e.value, e.value_class) for e in entries}


def read_only(root: Path) -> dict[Any, Any]:
    with kvwal.open(root, read_only=True) as store:
        jobs = store.map("jobs")
        assert len(jobs) == len(list(jobs))
        return dict(jobs)


def at_now(root: Path) -> dict[Any, Any]:
    with kvwal.open(root, read_only=True) as store:
        return dict(store.map("jobs").at(2**62))


def at_now_without_archive(root: Path) -> dict[Any, Any]:
    with kvwal.open(root, read_only=True, archive=None) as store:
        return dict(store.map("jobs").at(2**62))


def lines(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def scan(root: Path) -> dict[Any, Any]:
    return {row["key"]: row["value"] for row in lines(run("scan", root, "jobs", "--format", "json"))}


def export(root: Path) -> dict[Any, Any]:
    def of(row: dict[str, Any], name: str) -> Any:
        encoded = row[name].encode() if row.get(f"{name}_encoding") is None else b64decode(row[name])
        return registry.decode(encoded, row[f"{name}_class"])

    rows = lines(run("export", root, "jobs"))
    return {of({"key_class": "str", **row}, "key"): of(row, "value") for row in rows}


def query(root: Path) -> dict[Any, Any]:
    rows = lines(run("query", root, "SELECT key, value FROM jobs", "--format", "json"))
    return {row["key"] if row["key"] != "7" else 7: json.loads(row["value"]) for row in rows}


def typed(root: Path) -> dict[Any, Any]:
    """As the typed tables of Spark's records read keys."""
    with kvwal.open(root, read_only=True) as store, store.source().open_wanted("jobs", lambda key: True) as pieces:
        whole = decoded(entry for piece in pieces for entry in piece)
        parts = decoded(entry for piece in pieces.within([(b"a", b"c"), (b"c", b"z")]) for entry in piece)
    assert whole == parts
    return whole | {7: "int"}


def found(where: Path) -> dict[Any, Any]:
    """Key by key."""
    reader = opened(where).read_business("jobs")
    identities = [("str", b"a"), ("str", b"b"), ("str", b"c"), ("str", b"d"), ("str", b"gone"), ("int", b"\x81\x07")]
    entries = [reader.find(*identity) for identity in identities]
    return decoded(entry for entry in entries if entry is not None)


def by_prefix(where: Path) -> dict[Any, Any]:
    reader = opened(where).read_business("jobs")
    parts = [list(reader.entries(prefix)) for prefix in ("a", "b", "c", "d", "g")]
    return decoded(entry for part in parts for entry in part) | {7: "int"}


def by_spans(where: Path) -> dict[Any, Any]:
    spans = opened(where).read_business("jobs").spans([(b"a", b"c"), (b"c", b"z")])
    return decoded(spans) | {7: "int"}


def spark_store(root: Path) -> dict[Any, Any]:
    return spark({"store": str(root)})


def spark_archive(root: Path) -> dict[Any, Any]:
    return spark({"archive": str(root / "_archive")})


def spark(options: dict[str, str]) -> dict[Any, Any]:
    reader = KvwalReader(read_options({"business": "jobs", **options}), None)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert all(is_of_map(row["key_class"]) for row in rows)
    return {row["key"] if row["key"] != "7" else 7: json.loads(row["value"]) for row in rows}


FACES: dict[str, Callable[[Path], dict[Any, Any]]] = {
    "read_only": read_only,
    "at": at_now,
    "at without an archive": at_now_without_archive,
    "scan": scan,
    "export": export,
    "query": query,
    "typed tables": typed,
    "find": found,
    "prefix": by_prefix,
    "entries": lambda root: decoded(opened(root).read_business("jobs").entries()),
    "archive entries": lambda root: decoded(opened(root / "_archive").read_business("jobs").entries()),
    "archive spans": lambda root: by_spans(root / "_archive"),
    "archive at": lambda root: decoded(opened(root / "_archive").read_business("jobs").as_of(2**62).all_ordered()),
    "spans": by_spans,
    "archive find": lambda root: found(root / "_archive"),
    "archive prefix": lambda root: by_prefix(root / "_archive"),
    "Spark of a store": spark_store,
    "Spark of an archive": spark_archive,
}


@pytest.mark.parametrize("face", FACES)
def test_every_reader_of_a_log_shows_the_map_and_nothing_else(one: Written, face: str) -> None:
    assert FACES[face](one.root) == LATEST


@pytest.mark.parametrize("face", FACES)
def test_every_reader_of_several_logs_shows_the_map_and_nothing_else(two: Written, face: str) -> None:
    assert FACES[face](two.root) == LATEST | OTHER


@pytest.mark.breaks("formats", reason="its queue is from before such logs had a format of their own")
def test_a_store_that_is_opened_for_writing_shows_the_map_and_nothing_else(one: Written) -> None:
    with kvwal.open(one.root, archive=None) as store:
        jobs = store.map("jobs")
        assert (dict(jobs), len(jobs), sorted(map(str, jobs))) == (LATEST, len(LATEST), ["7", "b"])
        assert jobs.get("a") is None
        assert store.sql("SELECT count(*) AS n FROM jobs").to_pylist() == [{"n": len(LATEST)}]
        jobs.clear()
        assert not dict(jobs)
        jobs.update(LATEST)


def test_a_moment_before_the_destruction_shows_what_the_map_held(one: Written) -> None:
    with kvwal.open(one.root, read_only=True) as store:
        assert dict(store.map("jobs").at(one.before)) == {"a": 1, "gone": 1}


def test_the_history_of_a_key_goes_back_beyond_the_destruction(two: Written) -> None:
    for where in (two.root, two.root / "_archive"):
        values = [entry.value for entry in opened(where).read_business("jobs").history("str", b"gone")]
        assert [registry.decode(value, "int") for value in values] == [5, 1]


def test_a_watch_and_the_table_of_changes_have_the_changes_of_the_map_only(one: Written) -> None:
    with kvwal.open(one.root, read_only=True) as store:
        changes = store.map("jobs").watch(after=one.before - 1).poll()
        table = store.sql("SELECT DISTINCT key_class FROM jobs_history")
    assert {entry.key_class for entry in changes} == {"str", "int"}
    assert set(table.column("key_class").to_pylist()) == {"str", "int"}
    rows = spark({"archive": str(one.root / "_archive"), "view": "history"})
    assert rows.keys() >= {"a", "b", "gone", 7}


def test_a_restore_writes_the_map_and_no_mark_of_its_nodes(two: Written, tmp_path: Path) -> None:
    kvwal.restore(two.root / "_archive", tmp_path / "new", node="z")
    with kvwal.open(tmp_path / "new", archive=None) as store:
        assert dict(store.map("jobs")) == LATEST | OTHER
    with pin_log(OS_DISK, tmp_path / "new", Place("default", "local", "jobs", "z"), LatestOfEach) as log:
        assert not log.marks()
    kvwal.restore(two.root / "_archive", tmp_path / "before", node="z", at=two.before)
    with kvwal.open(tmp_path / "before", archive=None) as store:
        assert dict(store.map("jobs")) == {"a": 1, "gone": 1}


def test_the_mark_of_a_member_that_was_away_voids_its_own_entries(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, node="x", archive=None) as store:
        jobs = store.map("jobs")
        last = jobs.put_many({"a": 1, "c": 3})
        jobs.put("b", 2)
        submit_entries(jobs, [Ended(last, last + timestamps_within(10)).mark()]).result()
    with kvwal.open(tmp_path, node="y", archive=None) as store:
        store.map("jobs").put("d", 4)
    assert Ended(last, last).mark().key == AWAY
    for read in (read_only, lambda root: decoded(opened(root).read_business("jobs").entries()), at_now_without_archive):
        assert read(tmp_path) == {"b": 2, "d": 4}


def test_ranges_of_a_location_leave_out_other_structures(one: Written) -> None:
    everything = KeyRange()
    assert everything.low < (DROPPED, b"") < everything.high
    assert decoded(opened(one.root).read_business("jobs").select(lambda key, key_class: True)) == LATEST
