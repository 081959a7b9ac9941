"""`kvwal ttl`: what a key has left, and its change, which touches no value and revives nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvwal as library
from tests.support.cli import Ran, kvwal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with library.open(tmp_path / "data") as store:
        jobs = store.map("jobs")
        jobs["for ever"] = {"n": 1}
        jobs.put("an hour", b"\xff", ttl=3600)
        jobs.put("over", 1, ttl=0.001)
        jobs[7] = "number"
        store.archive()
    return tmp_path / "data"


def seconds(ran: Ran) -> float | None:
    assert ran.code == 0, ran.err
    told: float | None = json.loads(ran.out)["seconds"]
    return told


def test_what_is_left_is_told_by_every_kind_of_location(root: Path) -> None:
    for location in (root, root / "_archive"):
        assert kvwal("ttl", location, "jobs", "for ever") == Ran(0, "none\n", "")
        assert kvwal("ttl", location, "jobs", "an hour").out.startswith("3")
        assert seconds(kvwal("ttl", location, "jobs", "an hour", "--json")) == pytest.approx(3600, abs=300)
        assert seconds(kvwal("ttl", location, "jobs", "7", "--key-class", "int", "--json")) is None
        assert kvwal("ttl", location, "jobs", "over") == Ran(1, "", "kvwal: jobs has no 'over'.\n")


def test_an_end_is_set_and_taken_away_and_the_value_stays(root: Path) -> None:
    assert seconds(kvwal("ttl", root, "jobs", "for ever", "--set", "7d", "--json")) == pytest.approx(
        7 * 86_400, abs=300
    )
    assert seconds(kvwal("ttl", root, "jobs", "for ever", "--json")) == pytest.approx(7 * 86_400, abs=300)
    assert kvwal("get", root, "jobs", "for ever").out == '{"n":1}\n'
    assert seconds(kvwal("ttl", root, "jobs", "an hour", "--none", "--json")) is None
    with library.open(root, read_only=True) as store:
        assert store.map("jobs")["an hour"] == b"\xff"


def test_what_is_absent_stays_absent(root: Path) -> None:
    for key in ("over", "never"):
        for options in (("--set", "1h"), ("--none",)):
            assert kvwal("ttl", root, "jobs", key, *options) == Ran(1, "", f"kvwal: jobs has no '{key}'.\n")
        assert kvwal("get", root, "jobs", key).code == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--set", "soon"), "--set 'soon' is no duration."),
        (("--set", "0s"), "--set '0s' must be above 0."),
        (("--set", ""), "--set '' is no duration."),
        (("--set", "1h", "--none"), "--set and --none exclude each other; nothing was written."),
    ],
)
def test_what_is_no_time_to_live_is_refused(root: Path, options: tuple[str, ...], problem: str) -> None:
    ran = kvwal("ttl", root, "jobs", "for ever", *options)
    assert ran.code == 2
    assert ran.err.startswith(f"kvwal: {problem}")
    assert kvwal("ttl", root, "jobs", "for ever").out == "none\n"


def test_a_mistyped_map_and_an_archive_take_no_change(root: Path) -> None:
    assert kvwal("ttl", root, "jobz", "a", "--set", "1h").code == 2
    assert kvwal("ttl", root / "_archive", "jobs", "for ever", "--set", "1h").code == 2
