"""An archive as a location: the commands that only read answer from it, and those that write say that they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from tests.support.cli import kvwal as run


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of two nodes in two namespaces, and beside it the archive of all."""
    folder = tmp_path_factory.mktemp("stored")
    for namespace, node, number in (("default", "one", 1), ("default", "two", 2), ("other", "one", 3)):
        archive = folder / "archive"
        with kvwal.open(folder / "root", namespace=namespace, node=node, archive=archive) as store:
            jobs = store.map("jobs")
            jobs[f"key-{number}"] = {"number": number}
            jobs["shared"] = number
            jobs["gone"] = number
            del jobs["gone"]
            jobs.put("soon", "expired", ttl=0.001)
            jobs[b"\xff\x00"] = b"\x00binary"
    return folder


COMMANDS = [
    ("get", "jobs", "shared", "--json"),
    ("get", "jobs", "shared"),
    ("get", "jobs", "gone"),
    ("get", "jobs", "soon"),
    ("get", "jobs", "shared", "--node", "one", "--json"),
    ("history", "jobs", "shared", "--json"),
    ("history", "jobs", "gone", "--json"),
    ("history", "jobs", "never"),
    ("scan", "jobs", "--json"),
    ("scan", "jobs", "--prefix", "key", "--json"),
    ("scan", "jobs", "--namespace", "*", "--json"),
    ("export", "jobs"),
    ("query", "SELECT * FROM jobs WHERE key = 'shared'", "--json"),
    ("query", "SELECT key, deleted, node, timestamp FROM jobs_history ORDER BY ALL", "--json"),
    ("query", "SELECT * FROM jobs", "--namespace", "*", "--json"),
    ("query", "SELECT * FROM nothing"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_archive_answers_as_the_folder_does(stored: Path, command: tuple[str, ...]) -> None:
    name, *rest = command
    expected = run(name, stored / "root", *rest, "--archive", stored / "archive")
    assert expected.out or expected.code
    for location in (stored / "archive", f"file://{stored / 'archive'}"):
        assert run(name, location, *rest) == expected


def test_the_figures_of_an_archive_are_those_of_its_objects(stored: Path) -> None:
    ran = run("stats", stored / "archive", "--json")
    assert ran.code == 0, ran.err
    assert '"one":{"last_sequence":6,"objects":1,"entries":6,' in ran.out


@pytest.mark.parametrize(
    "command", [("put", "jobs", "a", "1"), ("delete", "jobs", "shared"), ("import", "jobs"), ("record",)]
)
def test_an_archive_is_only_read(stored: Path, command: tuple[str, ...]) -> None:
    ran = run(command[0], stored / "archive", *command[1:], *(["/dev/null"] if command[0] == "import" else []))
    assert ran.code == 2
    assert "is an archive, and an archive can only be read here; nothing was written." in ran.err


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("get", "jobz", "a"), "default/local has no map 'jobz' (there are: jobs)"),
        (("scan", "jobs", "--cluster", "other"), "default has no cluster 'other' (there are: local)"),
        (("stats", "--namespace", "never"), "has no namespace 'never' (there are: default, other)"),
        (("get", "jobs", "a", "--archive", "none"), "is an archive itself. Leave out --archive."),
        (("scan", "jobz", "--namespace", "*"), "no namespace has a map 'jobz'"),
    ],
)
def test_a_wrong_name_is_said(stored: Path, command: tuple[str, ...], sentence: str) -> None:
    ran = run(command[0], stored / "archive", *command[1:])
    assert (ran.code, sentence in ran.err) == (2, True), ran.err
