"""A typo, the wrong cluster, the wrong node, the wrong time: each is said, and never taken for all being well."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

import kvwal as library
from kvwal.errors import ConfigError
from kvwal.history.restore.restore import RestorePorts
from kvwal.log.files.names import find_places
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.repair import look, repair
from kvwal.spark.queries import one_application
from tests.repository.source import ROOT
from tests.support.cli import Ran, kvwal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed store with one business, archived."""
    root = tmp_path / "data"
    with library.open(root) as store:
        store.map("jobs")["job-1"] = 1
        store.archive()
    return root


def refused(ran: Ran, says: str) -> None:
    assert (ran.code, ran.out) == (2, ""), ran
    assert ran.err.startswith("kvwal: ")
    assert ran.err.count("\n") == 1
    assert says in ran.err


def two_namespaces(root: Path) -> None:
    """A damaged log of the same name in each of two namespaces."""
    for namespace in ("a", "b"):
        with library.open(root, namespace=namespace) as store:
            store.map("jobs")["whose"] = namespace
            store.archive()
    for path in root.glob("[ab]/local/jobs/local/*.wal"):
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("more", [[], ["--take-over"]])
def test_logs_of_several_namespaces_are_not_repaired_into_one_root(tmp_path: Path, more: list[str]) -> None:
    root, mended = tmp_path / "data", tmp_path / "mended"
    two_namespaces(root)
    fences = sorted(root.glob("_archive/**/_log*"))
    refused(kvwal("log", "repair", root, "--namespace", "*", "--into", mended, *more), "--namespace N")
    assert not mended.exists()
    assert sorted(root.glob("_archive/**/_log*")) == fences
    for namespace in ("a", "b"):
        into = tmp_path / f"mended-{namespace}"
        assert kvwal("log", "repair", root, "--namespace", namespace, "--into", into, *more).code == 0
        with library.open(into, namespace=namespace, read_only=True) as store:
            assert dict(store.map("jobs").items()) == {"whose": namespace}


def test_a_repair_of_several_namespaces_writes_nothing(tmp_path: Path) -> None:
    root, into, ports = tmp_path / "data", tmp_path / "mended", RestorePorts(OS_DISK, SYSTEM)
    two_namespaces(root)
    found = [look(ports, root, place, None, entry_decoder()) for place in find_places(OS_DISK, root)]
    with pytest.raises(ConfigError, match="cannot be repaired into one root at once; nothing was written"):
        repair(ports, into, found, None, take_over=False)
    assert not into.exists()


def test_a_log_that_was_moved_is_not_read(root: Path) -> None:
    (root / "default" / "local" / "jobs").rename(root / "default" / "local" / "runs")
    for command in (("get",), ("get", "--json"), ("history",), ("put",)):
        value = ["2"] if command == ("put",) else []
        refused(kvwal(command[0], root, "runs", "job-1", *value, *command[1:]), "does not belong here")
    assert "does not belong here" in kvwal("log", "verify", root).out


ON_A_ROOT = [
    ("archive", "run"), ("checkpoint",), ("stats",), ("log", "dump"), ("log", "verify"), ("log", "repair"),
]  # fmt: skip
ON_AN_ARCHIVE = [("archive", "list"), ("archive", "verify"), ("archive", "rewrite"), ("archive", "gc")]


@pytest.mark.parametrize("command", ON_A_ROOT, ids=" ".join)
def test_where_there_is_no_log_nothing_is_well(root: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert kvwal(*command, root).code == 0
    nowhere = tmp_path / "nowhere"
    refused(kvwal(*command, nowhere), "nowhere: there is no such folder.")
    refused(kvwal(*command, root, "--cluster", "typo"), "default has no cluster 'typo' (there are: local).")
    refused(kvwal(*command, root, "--namespace", "typo"), "has no namespace 'typo' (there are: default).")
    refused(kvwal(*command, root, "--node", "typo"), "default/local has no node 'typo' (there are: local).")
    assert not nowhere.exists()
    assert sorted(path.name for path in root.iterdir()) == ["_archive", "default"]


@pytest.mark.parametrize("command", ON_AN_ARCHIVE, ids=" ".join)
def test_where_nothing_is_archived_nothing_is_well(root: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    for source in (root, root / "_archive"):
        assert kvwal(*command, source).code == 0
        for option in ("--namespace", "--cluster", "--node"):
            refused(kvwal(*command, source, option, "typo"), f"has no {option[2:]} 'typo' (there are: ")
    refused(kvwal(*command, tmp_path / "nowhere"), "nowhere: there is no such folder.")
    refused(kvwal(*command, tmp_path / "nowhere", "--namespace", "*"), "nowhere: there is no such folder.")
    assert not (tmp_path / "nowhere").exists()


def test_what_was_done_is_counted(root: Path) -> None:
    assert kvwal("archive", "run", root).out == f"{root}: 1 map is archived.\n"
    assert kvwal("put", root, "runs", "run-1", "1").code == 0
    assert kvwal("archive", "run", root).out == f"{root}: 2 maps are archived.\n"
    assert kvwal("checkpoint", root).out == f"{root}: 2 maps have a snapshot.\n"


def test_a_time_before_the_history_is_the_callers_to_mend(root: Path, tmp_path: Path) -> None:
    assert kvwal("put", root, "jobs", "job-1", "2").code == 0
    assert kvwal("archive", "run", root).code == 0
    assert kvwal("archive", "rewrite", root, "--history", "0", "--force").code == 0
    ran = kvwal("restore", root / "_archive", tmp_path / "past", "--at", "2020-01-01T00:00:00+00:00")
    refused(ran, "and 2020-01-01 00:00:00.000Z was asked. Ask for a later time")
    assert re.search(r": before 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z only the latest", ran.err)


@pytest.mark.parametrize(("url", "says"), [("bogus://x/y", "bogus://"), ("s3:/x/y", "with one slash")])
def test_a_mistyped_archive_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(kvwal("put", "data", "jobs", "job-1", "1", "--archive", url), says)
    with pytest.raises(ConfigError, match=says):
        library.open("data", archive=url)
    assert list(tmp_path.iterdir()) == []


def test_the_nodes_of_a_business_are_named(root: Path) -> None:
    for command in ("get", "history"):
        refused(kvwal(command, root, "jobs", "job-1", "--node", "zz"), "jobs has no node 'zz' (there are: local).")
    refused(kvwal("get", root, "job", "job-1", "--node", "zz"), "default/local has no map 'job' (there are: jobs).")


def test_what_is_sound_has_no_figures_of_a_repair(root: Path) -> None:
    assert kvwal("log", "repair", root).out.splitlines()[1].split() == ["jobs", "local", "sound"]
    found = json.loads(kvwal("log", "repair", root, "--json").out)
    assert (found["entries saved"], found["archived up to"]) == (None, None)


def test_an_application_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^There is no application 'nope' here\. The latest: none\.$"):
        one_application({}, "nope")


def test_times_of_spark_jobs_are_utc_wherever_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert kvwal("record", tmp_path / "spark", ROOT / "tests" / "golden" / "event-log").code == 0
        assert "SUCCEEDED (1 job failed)  2026-11-21 05:02:48Z" in kvwal("jobs", tmp_path / "spark").out
        assert "at 2026-11-21 05:03:06Z" in kvwal("jobs", tmp_path / "spark", "report").out
    finally:
        monkeypatch.undo()
        time.tzset()
