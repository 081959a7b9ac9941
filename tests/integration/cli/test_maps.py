"""`kvwal maps` and `kvwal drop`: which maps are there, what each has, and what goes with one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kvwal as library
from kvwal.cli.commands import maps as command
from tests.support.cli import Ran, kvwal


def listed(location: object, *options: str) -> list[dict[str, Any]]:
    ran = kvwal("maps", location, *options, "--json")
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root of two nodes, with what does not count: a deleted key, an expired one, and another namespace."""
    root = tmp_path / "data"
    for node in ("a", "b"):
        with library.open(root, node=node) as store:
            store.map("jobs").put_many({node: 1, "both": 2})
            store.map("of-" + node)[1] = "x" * 1000
            store.map("jobs")["gone"] = 1
            del store.map("jobs")["gone"]
            store.map("jobs").put("expired", 1, ttl=0.001)
            store.archive()
    with library.open(root, node="a", namespace="other") as store:
        store.map("elsewhere")[1] = 1
    return root


def test_a_map_is_listed_with_its_keys_and_its_bytes(root: Path) -> None:
    rows = listed(root)
    assert [(row["map"], row["keys"]) for row in rows] == [("jobs", 3), ("of-a", 1), ("of-b", 1)]
    assert all(row["bytes"] > 250 for row in rows)
    assert [(row["map"], row["keys"]) for row in listed(root / "_archive")] == [("jobs", 3), ("of-a", 1), ("of-b", 1)]
    assert [(row["map"], row["keys"]) for row in listed(root, "--node", "a")] == [("jobs", 2), ("of-a", 1)]
    assert [row["map"] for row in listed(root, "--namespace", "other")] == ["elsewhere"]
    assert kvwal("maps", root).out.splitlines()[0].split() == ["map", "keys", "bytes"]


def test_keys_of_a_large_map_are_not_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "COUNTED_BYTES", 10)
    assert [row["keys"] for row in listed(root)] == [None] * 3
    assert kvwal("maps", root).out.splitlines()[1].split()[0] == "jobs"


def test_a_damaged_map_hides_no_other(root: Path) -> None:
    folder = root / "default" / "local" / "of-a" / "a"
    segment = min(folder.glob("*.wal"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    ran = kvwal("maps", root, "--json")
    assert ran.code == 4
    assert str(segment) in ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [(row["map"], row["keys"]) for row in rows] == [("jobs", 3), ("of-a", None), ("of-b", 1)]


def test_a_place_without_maps_is_an_error(root: Path, tmp_path: Path) -> None:
    assert kvwal("maps", tmp_path / "nowhere").code == 2
    ran = kvwal("maps", root, "--namespace", "none")
    assert ran == Ran(2, "", f"kvwal: {root} has no namespace 'none' (there are: default, other). Check --namespace.\n")
    assert kvwal("maps", root / "_archive", "--namespace", "none").code == 2


def asked(answer: str, *arguments: object) -> Ran:
    """A command whose standard input is a terminal on which this is typed."""
    terminal, of_command = os.openpty()
    program = "from kvwal.cli.main import main; main()"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    try:
        os.write(terminal, answer.encode())
        ran = subprocess.run(command, stdin=of_command, capture_output=True, text=True)
    finally:
        os.close(terminal)
        os.close(of_command)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture
def single(tmp_path: Path) -> Path:
    with library.open(tmp_path / "single") as store:
        store.map("jobs").put_many(dict.fromkeys(range(1200), "x"))
        store.map("other")["a"] = 1
    return tmp_path / "single"


def test_a_drop_deletes_all_keys_of_one_map_and_their_history_stays(single: Path) -> None:
    ran = kvwal("drop", single, "jobs", "--yes")
    assert ran == Ran(0, "jobs: 1,200 keys deleted. Their history stays as long as it is kept.\n", "")
    assert [(row["map"], row["keys"]) for row in listed(single)] == [("jobs", 0), ("other", 1)]
    past = [
        json.loads(line)
        for line in kvwal("history", single, "jobs", "7", "--key-class", "int", "--json").out.splitlines()
    ]
    assert [entry["deleted"] for entry in past] == [True, False]
    assert kvwal("scan", single, "jobs", "--at", past[1]["timestamp"], "--json").out.count("\n") == 1200
    assert json.loads(kvwal("drop", single, "jobs", "--yes", "--json").out) == {"map": "jobs", "deleted": 0}


def test_a_drop_asks_on_the_terminal(single: Path) -> None:
    ran = asked("n\n", "drop", single, "jobs")
    assert (ran.code, ran.out.strip()) == (1, "")
    assert "Delete 1,200 keys of jobs? Their history stays as long as it is kept. [y/N]" in ran.err
    assert ran.err.endswith("kvwal: jobs was not dropped.\n")
    assert listed(single)[0]["keys"] == 1200
    ran = asked("y\n", "drop", single, "jobs", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"map": "jobs", "deleted": 1200})
    assert listed(single)[0]["keys"] == 0


def test_a_drop_that_nobody_can_confirm_is_refused(single: Path, root: Path) -> None:
    program = "from kvwal.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, "drop", single, "jobs"], input="y\n", capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert ran.stderr.endswith("is no terminal on which to ask; nothing was deleted. Give --yes.\n")
    for arguments, sentence in (
        ((single, "jobz"), "default/local has no map 'jobz' (there are: jobs, other)"),
        ((root / "_archive", "jobs"), "is an archive, and an archive can only be read here"),
        (("kvwal://127.0.0.1:1", "jobs"), "is a cluster, and a map of a cluster goes for all of its clients"),
        ((root, "jobs"), "has several nodes: a, b"),
    ):
        refused = kvwal("drop", *arguments, "--yes")
        assert refused.code == 2
        assert sentence in refused.err
    assert listed(single)[0]["keys"] == 1200


def test_a_drop_of_a_node_leaves_the_keys_of_another(root: Path) -> None:
    assert kvwal("drop", root, "jobs", "--node", "b", "--yes").code == 0
    assert kvwal("scan", root, "jobs", "--format", "csv").out.split() == ["key,value", "a,1"]
    with library.open(root, node="a") as store:
        assert store.map("jobs")["both"] == 2
        assert kvwal("drop", root, "jobs", "--node", "a", "--yes").code == 3
