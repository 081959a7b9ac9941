"""The graph of data sets, and the walk through it."""

from __future__ import annotations

import pickle

import pytest

from kvwal.errors import ConfigError
from kvwal.lineage.graph import Graph
from kvwal.lineage.lookup import find_dataset
from kvwal.spark.lineage.edges import Edges
from kvwal.spark.lineage.names import DatasetName


def name(text: str) -> DatasetName:
    """`/a`, or `/a=default.a` for one whose table is known, or `catalog.table`."""
    path, _, table = text.partition("=")
    if path.startswith("/"):
        return DatasetName("file", path, f"spark_catalog/{table}" if table else "")
    return DatasetName("spark_catalog", path)


def graph(*runs: str) -> Graph:
    """A graph of runs: `/a,/b>/c` reads two data sets and writes one; a word before a colon is the run's name."""
    made = Graph()
    for number, text in enumerate(runs):
        called, _, rest = text.rpartition(":")
        reads, _, writes = rest.partition(">")
        sides = [[name(each) for each in side.split(",") if each] for side in (reads, writes)]
        called = called or f"sql {number}"
        edges = Edges(process=called, reads=sides[0], writes=sides[1], status="SUCCEEDED", at=number)
        made.add("spark", [("app", edges)])
    made.finish()
    return made


def walked(made: Graph, start: str, *, up: bool, depth: int | None = None) -> dict[str, int]:
    found = made.find(name(start).key)
    assert found is not None
    return {made.name(each.dataset).text: each.depth for each in made.walk(found, up=up, depth=depth)}


def test_a_walk_goes_over_all_runs_in_its_direction() -> None:
    made = graph("/a>/b", "/b,/x>/c", "/c>/d", "/a>/z")
    assert walked(made, "/c", up=True) == {"file:///b": 1, "file:///x": 1, "file:///a": 2}
    assert walked(made, "/a", up=False) == {"file:///b": 1, "file:///z": 1, "file:///c": 2, "file:///d": 3}
    assert walked(made, "/d", up=False) == {}


def test_a_walk_ends_at_its_depth() -> None:
    made = graph("/a>/b", "/b>/c", "/c>/d")
    assert walked(made, "/a", up=False, depth=2) == {"file:///b": 1, "file:///c": 2}


def test_a_cycle_ends() -> None:
    made = graph("/a>/b", "/b>/a")
    assert walked(made, "/a", up=False) == {"file:///b": 1, "file:///a": 2}


def test_a_run_that_overwrites_what_it_reads_leads_back() -> None:
    made = graph("/a,/b>/a")
    assert walked(made, "/a", up=True) == {"file:///a": 1, "file:///b": 1}


def test_what_is_told_of_one_run_at_several_times_belongs_together() -> None:
    made = graph("r:/a>", "r:>/b", "/c>")
    assert walked(made, "/b", up=True) == {"file:///a": 1}
    assert [made.run(0).status, made.run(0).at] == ["SUCCEEDED", 1]


def test_a_walk_changes_nothing_so_that_several_threads_may_walk() -> None:
    made = Graph()
    for number, (reads, writes) in enumerate([("/a", "/b"), ("/b", "/c"), ("/c", "/e")]):
        edges = Edges(process="sql 1", reads=[name(reads)], writes=[name(writes)], status="SUCCEEDED", at=number)
        made.add("spark", [(f"app-{number}", edges)])
    made.finish()
    before = pickle.dumps(made)
    assert walked(made, "/e", up=True) == {"file:///c": 1, "file:///b": 2, "file:///a": 3}
    assert [made.run(0).owner, made.beside(name("/e").key, up=True)] == ["app-0", [2]]
    assert pickle.dumps(made) == before


def test_a_table_is_the_data_set_of_its_path() -> None:
    made = graph("/a>/w/t=default.t", "default.t>/z")
    assert walked(made, "/a", up=False) == {"file:///w/t": 1, "file:///z": 2}
    assert made.find(("spark_catalog", "default.t")) == made.find(("file", "/w/t"))


def test_a_table_with_two_paths_is_a_data_set_of_its_own() -> None:
    made = graph("/a>/w/t=default.t", "/b>/v/t=default.t", "default.t>/z")
    assert walked(made, "/a", up=False) == {"file:///w/t": 1}
    assert walked(made, "/z", up=True) == {"spark_catalog/default.t": 1}


def test_two_names_that_name_each_other_end() -> None:
    made = graph("/a>/b")
    made.add_alias(("file", "/a"), ("file", "/b"))
    made.add_alias(("file", "/b"), ("file", "/a"))
    made.finish()
    assert walked(made, "/a", up=False) == {"file:///b": 1}


@pytest.mark.parametrize(
    "typed",
    [
        "/w/t", "file:/w/t", "file:///w//t/", "file//w/t", "default.t", "spark_catalog.default.t",
        "spark_catalog/default.t",
    ],
)  # fmt: skip
def test_a_data_set_is_found_in_any_spelling(typed: str) -> None:
    made = graph("/a>/w/t=default.t")
    assert made.name(find_dataset(made, typed)).text == "file:///w/t"


def test_an_unknown_data_set_names_the_nearest() -> None:
    made = graph("/lake/sales>/lake/mart", "/other>/far")
    with pytest.raises(ConfigError) as raised:
        find_dataset(made, "/lake/sale")
    assert raised.value.hint == "The nearest of 4: file:///lake/sales."


def test_an_unknown_data_set_of_an_empty_graph_says_so() -> None:
    with pytest.raises(ConfigError) as raised:
        find_dataset(graph(), "s3://x/y")
    assert "Nothing here names a data set" in raised.value.hint


def test_a_data_set_that_very_many_runs_read_is_walked_once() -> None:
    made = Graph()
    hot = DatasetName("file", "/hot")
    for number in range(20_000):
        out = DatasetName("file", f"/out/{number % 10}")
        edges = Edges(process="sql 1", reads=[hot], writes=[out], status="SUCCEEDED", at=number)
        made.add("spark", [(f"app-{number}", edges)])
    made.finish()
    start = made.find(("file", "/hot"))
    assert start is not None
    steps = made.walk(start, up=False)
    assert len(steps) == 10
    assert sum(len(step.runs) for step in steps) == 20_000
