"""What was told of runs, in columns: equal to a list of objects that is searched, and small."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kvwal.lineage.told_runs import ToldRuns
from kvwal.spark.lineage.edges import Edges
from kvwal.spark.lineage.names import DatasetName

MOST_BYTES_A_RUN = 500
"""A run of one write and two reads took 1,400 bytes as objects."""

names = st.builds(DatasetName, st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from(["", "t"]))


class Row(NamedTuple):
    """One row: by what it was told, whose run it is, and what was told."""

    source: str
    owner: str
    edges: Edges


rows_told = st.builds(
    Row,
    st.sampled_from(["spark", "openlineage"]),
    st.sampled_from(["app-1", "app-2"]),
    st.builds(
        Edges,
        process=st.sampled_from(["sql 1", "sql 2", "job 1"]),
        reads=st.lists(names, max_size=3),
        writes=st.lists(names, max_size=3),
        status=st.sampled_from(["", "SUCCEEDED", "FAILED"]),
        at=st.integers(-(1 << 70), 1 << 70),
        title=st.sampled_from(["", "load"]),
    ),
)


def run_of(row: Row) -> tuple[str, str]:
    return row.owner, row.edges.process


@given(st.lists(rows_told, max_size=12))
def test_rows_are_found_as_in_a_list_that_is_searched(rows: list[Row]) -> None:
    runs = ToldRuns()
    for row in rows:
        runs.add(row.source, [(row.owner, row.edges)])
    runs.finish()
    of_run = [[number for number, row in enumerate(rows) if run_of(row) == run_of(each)] for each in rows]
    assert [list(runs.rows_of_run(number)) for number in range(len(rows))] == of_run
    assert [Row(runs.source(n), runs.owner(n), runs.edges(n)) for n in range(len(rows))] == rows
    every = {name for row in rows for name in (*row.edges.reads, *row.edges.writes)}
    assert sorted(runs.names) == sorted(every)
    for name in [*every, DatasetName("c", "never told")]:
        assert runs.has_name(name) == (name in every)
        for up in (True, False):
            sides = [row.edges.writes if up else row.edges.reads for row in rows]
            beside = [of_run[number][0] for number, side in enumerate(sides) for each in side if each == name]
            assert runs.runs_beside(name, up=up) == beside


def test_a_name_without_a_run_is_there() -> None:
    runs = ToldRuns()
    runs.add_name(name := DatasetName("file", "/a"))
    runs.add_name(name)
    runs.finish()
    assert runs.names == [name]
    assert runs.runs_beside(name, up=True) == runs.runs_beside(name, up=False) == []


def test_many_runs_take_little_memory() -> None:
    count = 20_000

    def decoded() -> Iterator[tuple[str, Edges]]:
        """As from the records: all texts are objects of their own."""
        for number in range(count):
            reads = [DatasetName("s3:" + "//lake", f"mart/table-{max(0, number - back)}") for back in (1, 2)]
            writes = [DatasetName("s3:" + "//lake", f"mart/table-{number}")]
            edges = Edges(
                process=f"sql {number % 10}", reads=reads, writes=writes, status="SUCC" + "EEDED", at=number << 20,
                title=f"fill table {number % 100}",
            )  # fmt: skip
            yield f"application_1795237371242_{number // 10:06}", edges

    tracemalloc.start()
    try:
        runs = ToldRuns()
        runs.add("spark", decoded())
        runs.finish()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(runs.names) == count
    assert taken < count * MOST_BYTES_A_RUN
