"""The index of recorded applications in an archive: lists read summaries and failures, and no other record."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal.location.archived import ArchivedBusiness
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.spark import index, queries
from kvwal.spark.record_reader import ArchivedRecords, IndexedReader, MappingReader, RecordReader, records_of
from kvwal.spark.records import Application, Error, Job, to_value


def applications(first: int, count: int) -> dict[str, object]:
    records: dict[str, object] = {}
    for number in range(first, first + count):
        app = f"app-{number:03d}"
        records[f"{app}/app"] = to_value(
            Application(
                id=app, name="sums", status="SUCCEEDED", started=number, ended=number + 1, jobs=2, jobs_failed=1
            )
        )
        for job in range(2):
            record = Job(id=job, status="FAILED" if job else "SUCCEEDED", ended=number + 1, error=Error("no disk"))
            records[f"{app}/job/{job:010d}"] = to_value(record)
    return records | index.index_entries(records)


def write(folder: Path, node: str, mark: str | None, first: int) -> None:
    with kvwal.open(folder / "root", node=node, archive=folder / "archive") as store:
        marked = {} if mark is None else {index.mark_key(mark): index.mark_value()}
        store.map("spark").put_many(marked | applications(first, 5))


def answers(records: RecordReader) -> list[str]:
    """The answers as text, where a summary and the record that it repeats are the same."""
    every = queries.applications(records)
    told = [every, queries.failures(records), queries.detail(records, every[3]), queries.runs(records, "sums")]
    return [repr(each).replace("=Summary(", "=Application(") for each in told]


def reader(folder: Path) -> tuple[RecordReader, RecordReader]:
    """The records in the archive, as they are read, and all of them without their index."""
    with open_reader(parse_location(OS_DISK, str(folder / "archive")), Names()) as store:
        found = records_of(store)
        every = MappingReader({entry.key.decode(): entry.value for entry in store.read_business("spark").entries()})
        return found, every


@pytest.mark.parametrize("marks", [("one", "two"), (index.CLUSTER, None)], ids=["a folder", "a cluster"])
def test_an_archive_answers_from_its_index_as_from_all_records(tmp_path: Path, marks: tuple[str, str | None]) -> None:
    for number, (node, mark) in enumerate(zip(("one", "two"), marks, strict=True)):
        write(tmp_path, node, mark, number * 5)
    found, every = reader(tmp_path)
    assert isinstance(found, IndexedReader)
    assert answers(found) == answers(every)
    assert len(queries.applications(found)) == 10


@pytest.mark.parametrize("marks", [("one", None), (None, None), ("cluster", None)])
def test_a_node_without_its_mark_has_all_records_read(tmp_path: Path, marks: tuple[str | None, str | None]) -> None:
    """A node that is called as a cluster's mark is has a mark of its own, and no other node's."""
    names = ("cluster", "two") if marks[0] == "cluster" else ("one", "two")
    for number, (node, mark) in enumerate(zip(names, marks, strict=True)):
        write(tmp_path, node, mark, number * 5)
    found, every = reader(tmp_path)
    assert isinstance(found, MappingReader)
    assert answers(found) == answers(every)


def test_the_list_of_an_archive_decodes_no_job(tmp_path: Path) -> None:
    write(tmp_path, "one", "one", 0)
    with open_reader(parse_location(OS_DISK, str(tmp_path / "archive")), Names()) as store:
        business = store.read_business("spark")
        assert isinstance(business, ArchivedBusiness)
        spans: list[str] = []

        class Watched(ArchivedRecords):
            def between(self, low, high):  # type: ignore[no-untyped-def]
                for entry in super().between(low, high):
                    spans.append(entry.key.decode())
                    yield entry

        assert len(list(IndexedReader(Watched(business)).applications())) == 5
    assert all(key.startswith(index.APPLICATIONS) for key in spans)
