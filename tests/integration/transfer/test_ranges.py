"""`--from`, `--to`, `--reverse` and `--limit` of `scan` and `export`: slices of the sorted keys, of logs and of an archive."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvwal as library
from tests.support.cli import Ran, kvwal

TEXTS = sorted(["", "a", "a/1", "a/2", "a0", "b", "ß", "ßa", "\U0010ffff"])
NUMBERS = [-(2**70), -1, 0, 9, 10, 300]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of two nodes, and their archive."""
    root = tmp_path_factory.mktemp("ranges") / "data"
    keys = [*TEXTS, *NUMBERS, 2.5, True, None, b"a"]
    for number, node in enumerate(("a", "b")):
        with library.open(root, node=node) as store:
            store.map("jobs").put_many([(key, repr(key)) for key in keys[number::2]])
            store.archive()
    return root


def keys_of(ran: Ran) -> list[Any]:
    assert ran.code == 0, ran.err
    return [json.loads(line)["key"] for line in ran.out.splitlines()]


@pytest.mark.parametrize("kind", ["str", "int"])
def test_a_range_is_a_slice_of_the_sorted_keys(root: Path, kind: str) -> None:
    keys: list[Any] = TEXTS if kind == "str" else NUMBERS
    bounds = st.sampled_from([None, *keys])

    @settings(max_examples=15, deadline=None)
    @given(
        st.tuples(bounds, bounds).filter(lambda pair: pair != (None, None)),
        st.booleans(),
        st.sampled_from([None, 1, 3]),
    )
    def check(asked: tuple[Any, Any], reverse: bool, limit: int | None) -> None:
        start, end = asked
        found = [key for key in keys if (start is None or key >= start) and (end is None or key < end)]
        expected = list(islice(found[::-1] if reverse else found, limit))
        options = [f"--{name}={key}" for name, key in (("from", start), ("to", end)) if key is not None]
        options += [f"--key-class={kind}", *["--reverse"][:reverse], *([] if limit is None else [f"--limit={limit}"])]
        for location in (root, root / "_archive"):
            assert keys_of(kvwal("scan", location, "jobs", *options, "--json")) == expected
            lines = kvwal("export", location, "jobs", *options).out.splitlines()
            assert [json.loads(line)["value"] for line in lines] == [repr(key) for key in expected]

    check()


def test_without_bounds_all_keys_are_turned_and_counted(root: Path) -> None:
    for location in (root, root / "_archive"):
        everything = keys_of(kvwal("scan", location, "jobs", "--json"))
        assert keys_of(kvwal("scan", location, "jobs", "--json", "--reverse")) == everything[::-1]
        assert keys_of(kvwal("scan", location, "jobs", "--json", "--limit", "2")) == everything[:2]
        assert keys_of(kvwal("scan", location, "jobs", "--json", "--prefix", "a", "--reverse")) == [
            "a0",
            "a/2",
            "a/1",
            "a",
        ]
        assert keys_of(kvwal("scan", location, "jobs", "--json", "--prefix", "a/", "--from", "a/2")) == ["a/2"]


def test_a_limit_counts_over_all_namespaces(tmp_path: Path) -> None:
    for namespace in ("one", "two"):
        with library.open(tmp_path, namespace=namespace) as store:
            store.map("jobs").put_many({"a": 1, "b": 2})
    assert keys_of(kvwal("scan", tmp_path, "jobs", "--namespace", "*", "--limit", "3", "--json")) == ["a", "b", "a"]


REFUSED = [
    ("--key-class", "int"),
    ("--from", "x", "--key-class", "int"),
    ("--from", "x", "--key-class", "json"),
    ("--from", "1", "--key-class", "int", "--prefix", "a"),
    ("--limit", "0"),
    ("--limit", "-1"),
    ("--limit", "many"),
]


@pytest.mark.parametrize("options", REFUSED, ids=" ".join)
def test_a_range_that_has_no_meaning_is_refused(root: Path, options: tuple[str, ...]) -> None:
    ran = kvwal("scan", root, "jobs", *options)
    assert (ran.code, ran.out) == (2, "")
