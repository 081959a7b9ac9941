"""The command line in pipes and scripts: what it reads, where it prints, and the exit code that says how it ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.cli.tables import print_table
from tests.support.cli import kvwal as command

RUN = [sys.executable, "-c", "from kvwal.cli.main import main; main()"]


def shell(redirect: str, *typed: object) -> subprocess.CompletedProcess[str]:
    """The command with its streams redirected as a shell does it."""
    line = f'"$@" {redirect}'
    return subprocess.run(
        ["bash", "-c", line, "bash", *RUN, *map(str, typed)], capture_output=True, text=True, check=False
    )


def value(root: Path, key: str) -> Any:
    with kvwal.open(root, read_only=True) as store:
        return store.map("b").get(key)


def fill(root: Path, count: int) -> None:
    with kvwal.open(root, archive=None) as store:
        store.map("b").put_many({f"key-{number:06}": number for number in range(count)})


def test_a_value_that_is_no_text_is_bytes(tmp_path: Path) -> None:
    """And a key that is none is refused, unless it is said to be bytes."""
    odd = os.fsdecode(b"\xff\xfe")
    assert command("put", tmp_path, "b", "k", odd).code == 0
    assert value(tmp_path, "k") == b"\xff\xfe"
    for typed in (["put", tmp_path, "b", odd, "1"], ["get", tmp_path, "b", odd], ["history", tmp_path, "b", odd],
                  ["scan", tmp_path, "b", "--prefix", odd], ["query", tmp_path, f"SELECT '{odd}'"]):  # fmt: skip
        ran = command(*typed)
        assert (ran.code, "no UTF-8" in ran.err) == (2, True), typed
    assert command("put", tmp_path, "b", odd, "1", "--key-class", "bytes").code == 0


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"], ids=["full", "closed"])
def test_an_answer_that_is_not_taken_is_exit_code_5(tmp_path: Path, redirect: str) -> None:
    """The write itself is done, and no file of the store takes the place of standard output."""
    ran = shell(redirect, "put", tmp_path, "b", "k", "1")
    assert ran.returncode == 5, ran.stderr
    assert "What the command did is done" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert value(tmp_path, "k") == 1
    assert shell(redirect, "get", tmp_path, "b", "k").returncode == 5
    assert shell(redirect, "scan", tmp_path, "b").returncode == 5
    assert shell(f"{redirect} 2>&- <&-", "put", tmp_path, "b", "k", "2").returncode == 5
    assert value(tmp_path, "k") == 2


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    fill(tmp_path, 20_000)
    for typed in ("scan", "scan --json", "scan --format csv"):
        name, *options = typed.split()
        ran = shell('| head -1; exit "${PIPESTATUS[0]}"', name, tmp_path, "b", *options)
        assert (ran.returncode, ran.stderr) == (141, ""), typed
        assert len(ran.stdout.splitlines()) == 1


def test_a_mistyped_name_creates_nothing_and_is_the_callers_to_mend(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    assert command("delete", tmp_path, "mistyped", "k").code == 2
    assert not (tmp_path / "default" / "local" / "mistyped").exists()
    assert command("delete", tmp_path, "b", "never-there").code == 0
    assert command("query", tmp_path / "nodir", "SELECT 1").code == 2
    ran = command("history", tmp_path, "b", "absent")
    assert (ran.code, ran.out, ran.err) == (1, "", "kvwal: b never had 'absent'.\n")
    for mistyped in (tmp_path / "nodir", tmp_path):
        assert command("restore", mistyped, tmp_path / "new").code == 2
    assert command("export", tmp_path, "mistyped").code == 2


def test_a_query_is_one_statement(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    made = tmp_path / "made"
    for sql in (f"SELECT 1; COPY (SELECT 1) TO '{made}'", "", ";"):
        ran = command("query", tmp_path, sql)
        assert (ran.code, "statements" in ran.err) == (2, True), sql
    assert not made.exists()
    assert command("query", tmp_path, "SELECT 1;").code == 0


def test_a_query_changes_nothing_and_says_so(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    for sql in ("DELETE FROM b", "CREATE TABLE made AS FROM b", f"COPY b TO '{tmp_path / 'made.csv'}'"):
        ran = command("query", tmp_path, sql)
        assert (ran.code, ran.out) == (2, ""), sql
        assert ran.err.startswith(
            f"kvwal: a query only reads, and this is the statement {sql.split()[0]}; nothing was run."
        )
    assert not (tmp_path / "made.csv").exists()
    assert value(tmp_path, "key-000000") == 0


def test_bytes_of_a_scan_can_be_read_back(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("b").update({b"\xff": b"\xfe", "text": "/w=="})
    rows = [json.loads(line) for line in command("scan", tmp_path, "b", "--json").out.splitlines()]
    assert {"key": "/w==", "key_encoding": "base64", "value": "/g==", "value_encoding": "base64"} in rows
    assert {"key": "text", "value": "/w=="} in rows


def test_an_archive_that_takes_nothing_is_exit_code_3(tmp_path: Path) -> None:
    """What was written is durable, and is printed."""
    (tmp_path / "file").write_text("no folder")
    for typed in (["put", tmp_path, "b", "k", "1"], ["delete", tmp_path, "b", "other"]):
        ran = command(*typed, "--json", "--archive", tmp_path / "file" / "archive")
        assert ran.code == 3
        assert "durable" in ran.err
        assert json.loads(ran.out)["timestamp"]
    assert value(tmp_path, "k") == 1


def test_a_long_table_is_printed_as_it_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its rows are not kept, and one that is wider than the first ones is whole."""

    def rows() -> Iterator[tuple[str, int]]:
        for number in range(50_000):
            yield f"key-{number}" + ("x" * 200 if number == 40_000 else ""), number

    with capsys.disabled(), open(tmp_path / "out", "w") as out, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        tracemalloc.start()
        print_table(["key", "number"], rows())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    lines = (tmp_path / "out").read_text().splitlines()
    assert len(lines) == 50_001
    assert lines[0].split() == ["key", "number"]
    assert lines[1].split() == ["key-0", "0"]
    assert lines[40_001].split() == ["key-40000" + "x" * 200, "40,000"]
    assert peak < 20 << 20
    fill(tmp_path / "root", 3_000)
    ran = command("query", tmp_path / "root", "SELECT key, value FROM b ORDER BY key")
    assert [line.split() for line in ran.out.splitlines()[1:]] == [[f"key-{n:06}", str(n)] for n in range(3_000)]


def test_what_is_exported_is_imported_byte_for_byte(tmp_path: Path) -> None:
    odd: dict[Any, Any] = {
        "text": "ä\n",
        7: 1.5,
        b"\xff\x00": b"\xfe",
        True: None,
        "json": {"a": [1, "2"]},
        0.1: "x" * 3000,
        None: [],
        "int": 1 << 70,
    }
    with kvwal.open(tmp_path / "one", archive=None) as store:
        store.map("b").update(odd)
        store.map("b").put("with an end", 1, ttl=3600)
        before = {(e.key, e.key_class, e.value, e.value_class, e.expires) for e in store.map("b").entries()}
    assert command("export", tmp_path / "one", "b", tmp_path / "file").code == 0
    assert (tmp_path / "file").read_text() == command("export", tmp_path / "one", "b").out
    ran = command("import", tmp_path / "two", "b", tmp_path / "file", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"imported": len(odd) + 1, "expired": 0})
    piped = f"{sys.executable} -c 'from kvwal.cli.main import main; main()'"
    done = subprocess.run(["bash", "-c", f'{piped} export "$0" b | {piped} import "$1" b', tmp_path / "one", tmp_path / "three"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert "entries were put." in done.stdout
    for root in ("two", "three"):
        with kvwal.open(tmp_path / root, archive=None) as store:
            assert {(e.key, e.key_class, e.value, e.value_class, e.expires) for e in store.map("b").entries()} == before


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    good = json.dumps({"key": "a", "key_class": "str", "value": "1", "value_class": "json"})
    for bad in (
        good.replace('"1"', "1"),
        good.replace('"1"', '"one"'),
        good.replace('"str"', '"str", "key_encoding": "base64"').replace('"a"', '"?"'),
    ):
        (tmp_path / "file").write_text(f"{good}\n{bad}\n")
        ran = command("import", tmp_path / "root", "b", tmp_path / "file")
        assert (ran.code, "line 2 is no line of an export" in ran.err) == (2, True), bad
    old = good[:-1] + ', "expires_ms": 1}'
    (tmp_path / "file").write_text(f"{good}\n{old}\n")
    assert "1 had expired" in command("import", tmp_path / "root", "b", tmp_path / "file").out
