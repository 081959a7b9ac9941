"""Names of the archive: what is legal round-trips, what is hostile is refused with the rule it breaks."""

from __future__ import annotations

import pytest

from kvwal_archive.errors import InvalidName
from kvwal_archive.layout import (
    MAX_NUMBER,
    NAME_LENGTH,
    Place,
    Span,
    check_name,
    object_key,
    parse_object_key,
    parse_registration_key,
    registration_key,
)

PLACE = Place("spark", "local", "jobs", "node-1")
HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "_log",
    ".hidden",
    "-rf",
    "a b",
    "a\0b",
    "a\nb",
    "ä",
    "a" * (NAME_LENGTH + 1),
    "*",
    "a?",
]


@pytest.mark.parametrize("name", ["a", "node-1", "A.b_c%2F@x+y", "%", "@x", "9", "a" * NAME_LENGTH, "a..b"])
def test_legal_names(name: str) -> None:
    assert check_name("node", name) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName, match=r"The business name .* (is|holds|begins)"):
        check_name("business", name)


@pytest.mark.parametrize("field", range(4))
def test_no_part_of_a_place_escapes_the_check(field: int) -> None:
    parts = list(PLACE)
    parts[field] = ".."
    with pytest.raises(InvalidName, match=Place._fields[field]):
        object_key(Place(*parts), Span(1, 2))


def test_object_keys() -> None:
    prefix = "spark/local/jobs/node-1/"
    assert object_key(PLACE, Span(1, 250)) == f"{prefix}00000000000000000001-00000000000000000250.parquet"
    assert (
        object_key(PLACE, Span(1, 250, 7))
        == f"{prefix}00000000000000000001-00000000000000000250-00000000000000000007.parquet"
    )


@pytest.mark.parametrize("span", [Span(0, 1), Span(2, 1), Span(1, MAX_NUMBER + 1), Span(1, 1, -1)])
def test_an_impossible_span_has_no_key(span: Span) -> None:
    with pytest.raises(ValueError, match="not a range"):
        object_key(PLACE, span)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "x.parquet",
        "spark/local/jobs/node-1/1-2.parquet",
        "spark/local/jobs/node-1/00000000000000000001-00000000000000000250.parquet.tmp",
        "spark/local/jobs/node-1/.00000000000000000001-00000000000000000250.parquet",
        "spark/local/jobs/../00000000000000000001-00000000000000000250.parquet",
        "spark/local/jobs/00000000000000000001-00000000000000000250.parquet",
        "spark/local/jobs/node-1/x/00000000000000000001-00000000000000000250.parquet",
        "spark/local/jobs/node-1/00000000000000000002-00000000000000000001.parquet",
        "spark/local/jobs/node-1/99999999999999999999-99999999999999999999.parquet",
        "spark/local/jobs/node-1/00000000000000000001-00000000000000000250-00000000000000000000.parquet",
        "spark/local/jobs/node-1/٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١-00000000000000000250.parquet",
        "/spark/local/jobs/node-1/00000000000000000001-00000000000000000250.parquet",
    ],
)
def test_what_is_no_object_key_does_not_parse(key: str) -> None:
    assert parse_object_key(key) is None


def test_registration_keys() -> None:
    assert registration_key(PLACE, 1) == "spark/local/jobs/node-1/_log"
    assert registration_key(PLACE, 12) == "spark/local/jobs/node-1/_log.12"
    assert parse_registration_key("spark/local/jobs/node-1/_log") == (PLACE, 1)
    for key in ("_log", "a/b/c/d/_log.0", "a/b/c/d/_log.1", "a/b/c/d/_log.02", "a/b/c/d/_log.x", "a/b/../d/_log"):
        assert parse_registration_key(key) is None


def test_a_wider_range_or_a_later_horizon_supersedes() -> None:
    assert Span(1, 100).supersedes(Span(1, 50, 9))
    assert Span(1, 100, 5).supersedes(Span(20, 30))
    assert Span(1, 100, 6).supersedes(Span(1, 100, 5))
    assert not Span(1, 100, 5).supersedes(Span(1, 100, 5))
    assert not Span(1, 100, 5).supersedes(Span(1, 100, 6))
    assert not Span(1, 100).supersedes(Span(50, 101))
