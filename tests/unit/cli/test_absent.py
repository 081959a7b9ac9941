"""Each command on a place that is not there: a sentence says what is missing and what is there. The exit code is 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

import kvwal as library
from tests.repository.source import ROOT
from tests.support.cli import Ran, kvwal

ON_A_BUSINESS = [
    ("get", "{at}", "{business}", "k"),
    ("get", "{at}", "{business}", "k", "--json"),
    ("history", "{at}", "{business}", "k"),
    ("scan", "{at}", "{business}"),
    ("scan", "{at}", "{business}", "--prefix", "k"),
    ("export", "{at}", "{business}"),
]
ON_A_BUSINESS_OF_A_FOLDER = [
    ("delete", "{at}", "{business}", "k"),
    ("log", "dump", "{at}", "{business}"),
    ("log", "verify", "{at}", "{business}"),
    ("log", "repair", "{at}", "{business}"),
]
ON_ALL = [("query", "{at}", "SELECT 1"), ("stats", "{at}"), ("jobs", "{at}")]
ON_ALL_OF_A_FOLDER = [
    ("prune", "{at}", "--keep", "1d"),
    ("record", "{at}"),
    ("checkpoint", "{at}"),
    ("log", "dump", "{at}"),
    ("log", "verify", "{at}"),
    ("log", "repair", "{at}"),
    ("archive", "run", "{at}"),
]
ON_A_FOLDER = [*ON_A_BUSINESS, *ON_A_BUSINESS_OF_A_FOLDER, *ON_ALL, *ON_ALL_OF_A_FOLDER, ("backup", "{at}", "{new}")]
ON_AN_ARCHIVE = [
    ("archive", "list", "{at}"),
    ("archive", "verify", "{at}"),
    ("archive", "rewrite", "{at}"),
    ("archive", "base", "{at}"),
    ("archive", "gc", "{at}"),
    ("restore", "{at}", "{new}"),
]
NAMES_OF_ALL = [command for command in ON_ALL_OF_A_FOLDER if command[0] != "record"]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of two maps, which is archived."""
    root = tmp_path_factory.mktemp("closed") / "data"
    with library.open(root) as store:
        for name in ("jobs", "owners"):
            store.map(name)["k"] = 1
        store.archive()
    return root


@pytest.fixture
def base(tmp_path: Path, closed: Path) -> Iterator[Path]:
    """A folder with the store `data` of two maps, which is archived, the folder `empty`, and the file `file`."""
    shutil.copytree(closed, tmp_path / "data")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("some text\n")
    before = tree(tmp_path)
    yield tmp_path
    assert tree(tmp_path) == before


def tree(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def run(command: tuple[str, ...], base: Path, at: str, business: str, *more: str) -> Ran:
    """Run a command on the place `at` in the folder of the test, or at the URL `at`."""
    place = at if "://" in at else str(base / at)
    return kvwal(*(word.format(at=place, business=business, new=base / "new") for word in command), *more)


def refused(ran: Ran, says: str) -> None:
    assert (ran.code, ran.out) == (2, ""), ran
    assert ran.err.startswith("kvwal: "), ran
    assert ran.err.count("\n") == 1, ran
    assert says in ran.err, ran


@pytest.mark.parametrize("command", [*ON_A_FOLDER, *ON_AN_ARCHIVE, ("doctor", "{at}"), ("bench", "{at}")], ids=" ".join)
def test_a_folder_that_is_not_there(base: Path, command: tuple[str, ...]) -> None:
    refused(
        run(command, base, "dat", "jobs"), f"{base / 'dat'}: there is no such folder. Did you mean {base / 'data'}?"
    )
    refused(run(command, base, "nowhere/at/all", "jobs"), f"{base / 'nowhere/at/all'}: there is no such folder.")
    refused(run(command, base, "file", "jobs"), f"{base / 'file'} is a file, and a root is a folder.")


@pytest.mark.parametrize("command", ON_A_FOLDER, ids=" ".join)
def test_a_folder_without_a_store(base: Path, command: tuple[str, ...]) -> None:
    refused(run(command, base, "empty", "jobs"), f"{base / 'empty'}: there is no log in this folder.")


@pytest.mark.parametrize("command", ON_AN_ARCHIVE, ids=" ".join)
def test_a_folder_that_is_no_archive(base: Path, command: tuple[str, ...]) -> None:
    refused(run(command, base, "empty", "jobs"), f"{base / 'empty'}: nothing is archived here.")


@pytest.mark.parametrize("command", ON_AN_ARCHIVE, ids=" ".join)
def test_a_store_that_has_archived_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    with library.open(tmp_path / "data", archive=None) as store:
        store.map("jobs")["k"] = 1
    refused(run(command, tmp_path, "data", "jobs"), f"{tmp_path / 'data'} is the folder of a store, and no archive.")


@pytest.mark.parametrize("command", [*ON_A_BUSINESS, *ON_ALL], ids=" ".join)
def test_an_address_at_which_nothing_is_archived(base: Path, command: tuple[str, ...]) -> None:
    refused(run(command, base, f"file://{base}/empty", "jobs"), f"{base / 'empty'}: nothing is archived here.")
    refused(run(command, base, f"file://{base}/dat", "jobs"), f"{base / 'dat'}: there is no such folder.")


def test_a_restore_of_a_store_names_its_archive(base: Path) -> None:
    refused(
        run(("restore", "{at}", "{new}"), base, "data", ""),
        f"{base / 'data'} is the folder of a store, and no archive. Its archive is {base / 'data' / '_archive'}.",
    )


@pytest.mark.parametrize(
    "command", [("checkpoint", "{at}"), ("log", "verify", "{at}"), ("archive", "run", "{at}")], ids=" ".join
)
def test_an_archive_is_no_store(base: Path, command: tuple[str, ...]) -> None:
    refused(run(command, base, "data/_archive", ""), f"{base / 'data' / '_archive'} is an archive, and no store.")


@pytest.mark.parametrize("command", [*ON_A_BUSINESS, *ON_A_BUSINESS_OF_A_FOLDER], ids=" ".join)
def test_a_business_that_is_not_there(base: Path, command: tuple[str, ...]) -> None:
    refused(run(command, base, "data", "owner"), "default/local has no map 'owner' (there are: owners, jobs).")


@pytest.mark.parametrize("command", ON_A_BUSINESS, ids=" ".join)
def test_a_business_that_is_not_archived(base: Path, command: tuple[str, ...]) -> None:
    at = f"file://{base}/data/_archive"
    refused(
        run(command, base, at, "owner"),
        "default/local has no map 'owner' (there are: owners, jobs).",
    )


@pytest.mark.parametrize("at", ["data", "data/_archive"])
@pytest.mark.parametrize("command", [*ON_A_BUSINESS, *ON_ALL], ids=" ".join)
def test_a_namespace_or_a_cluster_that_is_not_there(base: Path, command: tuple[str, ...], at: str) -> None:
    refused(run(command, base, at, "jobs", "--namespace", "defalt"), "has no namespace 'defalt' (there are: default).")
    refused(run(command, base, at, "jobs", "--cluster", "typo"), "has no cluster 'typo' (there are: local).")


@pytest.mark.parametrize("command", [*ON_A_BUSINESS_OF_A_FOLDER, *NAMES_OF_ALL, *ON_AN_ARCHIVE[:-1]], ids=" ".join)
def test_a_part_of_a_folder_that_is_not_there(base: Path, command: tuple[str, ...]) -> None:
    refused(
        run(command, base, "data", "jobs", "--namespace", "defalt"), "has no namespace 'defalt' (there are: default)."
    )
    refused(run(command, base, "data", "jobs", "--cluster", "typo"), "has no cluster 'typo' (there are: local).")
    if command[0] != "delete" and command[1] != "base":  # delete makes the node, as put does; a base is of all nodes
        refused(run(command, base, "data", "jobs", "--node", "typo"), "has no node 'typo' (there are: local).")


def test_a_scan_of_all_namespaces_lists_the_businesses(base: Path) -> None:
    for at in ("data", "data/_archive"):
        ran = run(("scan", "{at}", "{business}"), base, at, "owner", "--namespace", "*")
        refused(ran, "no namespace has a map 'owner' (there are: owners, jobs).")


def test_a_name_among_many_is_told_with_those_like_it(tmp_path: Path) -> None:
    with library.open(tmp_path, archive=None) as store:
        for number in range(30):
            store.map(f"table-{number:02}")["k"] = 1
        store.map("orders")["k"] = 1
    ran = kvwal("get", tmp_path, "order", "k")
    assert "(there are: orders, table-00, table-01, " in ran.err
    assert "and 21 more)" in ran.err


def test_what_a_put_makes_is_said_to_be_new(tmp_path: Path) -> None:
    at, lines = tmp_path / "data", tmp_path / "lines"
    first = kvwal("put", at, "jobs", "k", "1")
    assert (first.code, first.err) == (0, f"kvwal: {at} is new: a store begins there, with the map jobs.\n")
    again = kvwal("put", at, "jobs", "k", "2")
    assert (again.code, again.err) == (0, "")
    other = kvwal("put", at, "jobz", "k", "1", "--json")
    assert (other.code, other.err) == (
        0,
        f"kvwal: the map jobz is new in {at}, default/local (there are: jobs).\n",
    )
    elsewhere = kvwal("put", at, "jobs", "k", "1", "--namespace", "defalt")
    assert elsewhere.err == f"kvwal: the namespace defalt is new in {at} (there are: default).\n"
    assert kvwal("export", at, "jobs", lines).code == 0
    copied = kvwal("import", at, "copied", lines)
    assert (copied.code, copied.err) == (
        0,
        f"kvwal: the map copied is new in {at}, default/local (there are: jobs, jobz).\n",
    )
    assert kvwal("put", at, "bad name", "k", "1").err.count("\n") == 1


def test_a_record_into_a_new_place_says_so(tmp_path: Path) -> None:
    log = ROOT / "tests" / "golden" / "event-log"
    first = kvwal("record", tmp_path / "data", log)
    assert (first.code, first.err) == (
        0,
        f"kvwal: {tmp_path / 'data'} is new: a store begins there, with the map spark.\n",
    )
    assert kvwal("record", tmp_path / "data", log).err == ""


@pytest.mark.parametrize("text", ["vm\n", "a host\n", "no line end", '{"a": 1}\n'])
def test_a_file_that_is_no_event_log(tmp_path: Path, text: str) -> None:
    named = tmp_path / "named"
    named.write_text(text)
    ran = kvwal("record", tmp_path / "data", named)
    assert ran.code == 2
    assert f"kvwal: named: {named} is no event log of Spark: it begins with " in ran.err


@pytest.mark.parametrize("text", ["", "{", '{"Ev', "LZ4B"])
def test_an_event_log_that_has_just_begun_is_told(tmp_path: Path, text: str) -> None:
    named = tmp_path / "named"
    named.write_text(text)
    ran = kvwal("record", tmp_path / "data", named)
    assert (ran.code, "Skipped named: the log does not name its application yet" in ran.err) == (0, True)


def test_a_folder_of_other_things_does_not_fill_the_terminal(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(300):
        (logs / f"other-{number:03}").write_text("vm\n")
    ran = kvwal("record", tmp_path / "data", logs)
    assert ran.code == 0, ran.err
    skipped = [line for line in ran.err.splitlines() if "Skipped " in line]
    assert [f"other-{number:03}" in line for number, line in enumerate(skipped)] == [True] * 10
    assert "290 more were skipped. With --json each is named." in ran.err
    lines = kvwal("record", tmp_path / "data", logs, "--json").out.splitlines()
    assert all("is no event log of Spark" in json.loads(line)["skipped"] for line in lines)
    assert len(lines) == 300


def test_a_restore_of_a_time_before_all_history(base: Path) -> None:
    at = base / "data" / "_archive"
    ran = kvwal("restore", at, base / "new", "--at", "2020-01-01T00:00:00+00:00")
    refused(ran, f"{at}: the first archived entry of default/local is of 20")
    assert ", and 2020-01-01 00:00:00.000Z was asked. Ask for a later time." in ran.err
    with pytest.raises(library.BeforeHistory):
        library.restore(at, base / "new", at=date(2020, 1, 1))
