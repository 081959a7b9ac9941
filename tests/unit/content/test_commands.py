"""`kvwal content`: what it prints, and what it refuses."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kvwal as package
from kvwal.cli.content.transfer import SHOWN
from kvwal.content.writer import SHARED_BYTES
from tests.support.cli import Ran, kvwal
from tests.support.log.store import open_with_archiver

LARGE = bytes(range(256)) * (SHARED_BYTES // 256 + 1)
COMMANDS = {
    "list": ["files"],
    "put": ["files", "a", "/dev/null"],
    "get": ["files", "a"],
    "delete": ["files", "a"],
    "stats": ["files"],
    "verify": ["files"],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with contents, and its archive in the folder `_archive`."""
    folder = tmp_path / "root"
    with open_with_archiver(folder, folder / "_archive") as store:
        business = store.business("files")
        business.content().put("report/1", b"one\n", {"codec": "", "of": "job 1"})
        business.content().put("report/2", b"two\n")
        business.content("logs").put("large", LARGE)
        business.content("logs").copy("large", "copy")
        store.archive()
    return folder


@pytest.fixture(params=["folder", "held", "archive"])
def location(request: pytest.FixtureRequest, root: Path) -> Any:
    """Where the contents are read: a folder, one that a process holds, an archive."""
    if request.param == "held":
        with package.open(root) as store:
            store.content("files")
            yield root
    else:
        yield root if request.param == "folder" else root / "_archive"


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes, *arguments: object) -> Ran:
    """A command with bytes on its standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return kvwal(*arguments)


def lines(ran: Ran) -> list[dict[str, Any]]:
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def claim_file(root: Path, size: int) -> Path:
    (path,) = [path for path in root.glob("default/*/files/*/content/*/*") if path.stat().st_size == size]
    return path


def test_list(location: Path) -> None:
    found = lines(kvwal("content", "list", location, "files", "--json"))
    assert [(one["name"], one["bytes"]) for one in found] == [("report/1", 4), ("report/2", 4)]
    assert found[0]["sha256"] == hashlib.sha256(b"one\n").hexdigest()
    assert found[0]["attributes"] == {"codec": "", "of": "job 1"}
    assert [one["name"] for one in lines(kvwal("content", "list", location, "files/logs", "--json"))] == [
        "copy",
        "large",
    ]
    ran = kvwal("content", "list", location, "files", "--prefix", "report/2", "--format", "csv")
    head, row = ran.out.splitlines()
    assert head == "name,bytes,changed,attributes"
    assert row.startswith("report/2,4,20")
    ran = kvwal("content", "list", location, "files")
    assert ran.out.splitlines()[0].split() == ["name", "bytes", "changed", "attributes"]


def test_list_of_what_is_not_there(location: Path) -> None:
    assert kvwal("content", "list", location, "files/log") == Ran(
        1, "", "kvwal: files/log has no content (contents in files: files/logs, files).\n"
    )
    assert kvwal("content", "list", location, "files", "--prefix", "x") == Ran(
        1, "", "kvwal: files has no content that begins with 'x'.\n"
    )
    ran = kvwal("content", "list", location, "file")
    assert (ran.code, ran.out) == (2, "")
    assert "'file'" in ran.err
    assert "files" in ran.err


def test_get(location: Path, tmp_path: Path) -> None:
    assert kvwal("content", "get", location, "files", "report/1") == Ran(0, "one\n", "")
    assert kvwal("content", "get", location, "files", "report/1", "--offset", "1", "--length", "2") == Ran(0, "ne", "")
    target = tmp_path / "out"
    ran = kvwal("content", "get", location, "files/logs", "large", "-o", target)
    assert ran == Ran(0, "", f"kvwal: {len(LARGE):,} bytes written to {target}.\n")
    assert target.read_bytes() == LARGE
    ran = kvwal("content", "get", location, "files", "report/1", "-o", target)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"kvwal: {target} is there already")
    assert target.read_bytes() == LARGE


def test_get_of_what_is_not_there(location: Path) -> None:
    assert kvwal("content", "get", location, "files", "report/11") == Ran(
        1, "", "kvwal: files has no content 'report/11' (there are: report/1, report/2).\n"
    )
    assert kvwal("content", "get", location, "files", "xyz") == Ran(
        1, "", "kvwal: files has no content 'xyz' (there are: report/1, report/2).\n"
    )


def test_stats_and_verify(location: Path) -> None:
    (figures,) = lines(kvwal("content", "stats", location, "files/logs", "--json"))
    assert (figures["content"], figures["contents"], figures["bytes"]) == ("files/logs", 2, 2 * len(LARGE))
    assert figures["claim_files"] == 2
    assert figures["disk_bytes"] >= len(LARGE) + 8
    assert figures["live_share"] == (len(LARGE) + 8) / figures["disk_bytes"]
    ran = kvwal("content", "stats", location, "files")
    assert [line.split()[0] for line in ran.out.split("\n") if line] == list(figures)
    (said,) = lines(kvwal("content", "verify", location, "files/logs", "--json"))
    assert said == {"content": "files/logs", "contents": 2, "bytes": len(LARGE), "damaged": 0}
    assert kvwal("content", "verify", location, "files") == Ran(0, "files: 2 contents, 8 B: all sound.\n", "")


def test_repair_writes_damaged_contents_again(root: Path) -> None:
    with package.open(root, archive=root / "_archive") as store:
        store.archive()
    for path in (root / "default/local/files/local/content").glob("*/*"):
        path.write_bytes(b"?" * path.stat().st_size)
    assert kvwal("content", "verify", root, "files").code == 4
    (said,) = lines(kvwal("content", "verify", root, "files", "--repair", "--json"))
    assert (said["repaired"], said["damaged"]) == (2, 0)
    assert kvwal("content", "verify", root, "files").out.endswith("all sound.\n")
    ran = kvwal("content", "verify", root / "_archive", "files", "--repair")
    assert (ran.code, "archive" in ran.err) == (2, True)


@pytest.mark.breaks("contents", reason="the bytes are damaged, and no archive has them")
def test_what_no_archive_has_stays_damaged(root: Path) -> None:
    for path in (root / "default/local/files/local/content").glob("*/*"):
        path.write_bytes(b"?" * path.stat().st_size)
    ran = kvwal("content", "verify", root, "files", "--repair", "--archive", "none")
    assert (ran.code, "2 damaged" in ran.out) == (4, True)


def test_the_past(root: Path) -> None:
    with package.open(root) as store:
        c = store.content("files")
        then = c.stat("report/2").timestamp
        c.put("report/1", b"later\n")
        c.delete("report/2")
    for where in (root, root / "_archive"):
        found = lines(kvwal("content", "list", where, "files", "--at", then, "--json"))
        assert [one["name"] for one in found] == ["report/1", "report/2"]
        assert kvwal("content", "get", where, "files", "report/1", "--at", then) == Ran(0, "one\n", "")
    ran = kvwal("content", "list", root, "files", "--at", "2025-01-01")
    assert ran == Ran(1, "", "kvwal: files had no content at 2025-01-01 00:00:00.000Z.\n")
    ran = kvwal("content", "get", root, "files", "report/1", "--at", "2025-01-01")
    said = "kvwal: files had no content 'report/1' at 2025-01-01 00:00:00.000Z (there were: none).\n"
    assert ran == Ran(1, "", said)


def test_put_and_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, source = tmp_path / "root", tmp_path / "in"
    source.write_bytes(LARGE)
    ran = kvwal("content", "put", root, "files", "a", source, "--attribute", "of=x=y", "--attribute", "codec=zstd")
    assert ran.code == 0
    assert ran.out.startswith(f"files: 'a' has {len(LARGE):,} bytes since 20")
    assert ran.err == f"kvwal: {root} is new: a store begins there, with the content files.\n"
    ran = piped(monkeypatch, b"from a pipe", "content", "put", root, "files/x", "b", "-", "--json")
    assert ran.err == "kvwal: the content files/x is new in files (there are: files).\n"
    said = json.loads(ran.out)
    assert (said["content"], said["name"], said["bytes"]) == ("files/x", "b", 11)
    assert piped(monkeypatch, b"", "content", "put", root, "files/x", "c").err == ""
    with package.open(root, read_only=True) as store:
        assert store.content("files").stat("a").attributes == {"of": "x=y", "codec": "zstd"}
        assert store.content("files").get("a") == LARGE
        assert store.business("files").content("x").get("b") == b"from a pipe"
    ran = kvwal("content", "delete", root, "files/x", "b", "--json")
    assert json.loads(ran.out)["name"] == "b"
    assert kvwal("content", "delete", root, "files/x", "b") == Ran(
        1, "", "kvwal: files/x has no content 'b' (there are: c).\n"
    )
    assert kvwal("content", "delete", root, "files/x", "c").out.startswith("files/x: 'c' is deleted since 20")
    assert kvwal("content", "stats", root, "files/x").code == 1


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["files", "a", "GONE"], "GONE cannot be read (No such file or directory); nothing was put."),
        (["files", "a", "FOLDER"], "FOLDER cannot be read (Is a directory); nothing was put."),
        (["files", "", "FILE"], "the name of a content is empty."),
        (["files", "n" * 1025, "FILE"], "the name of a content has 1,025 bytes; 1,024 are allowed"),
        (["files/", "a", "FILE"], "The content name '' is empty."),
        (["fi:les", "a", "FILE"], "The business name 'fi:les' holds ':'"),
        (["files", "a", "FILE", "--attribute", "x"], "--attribute 'x' has no name and value; nothing was put."),
        (["files", "a", "FILE", "--attribute", "x=1", "--attribute", "x=2"], "--attribute x is given twice"),
    ],
)
def test_a_put_that_is_refused_begins_no_store(tmp_path: Path, typed: list[str], says: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    places = {"GONE": tmp_path / "gone", "FOLDER": tmp_path, "FILE": tmp_path / "file"}
    for word, path in places.items():
        says = says.replace(word, str(path))
    ran = kvwal("content", "put", tmp_path / "root", *(places.get(word, word) for word in typed))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"kvwal: {says}")
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("command", ["put", "delete"])
def test_an_archive_is_only_read(root: Path, command: str) -> None:
    ran = kvwal("content", command, root / "_archive", *COMMANDS[command])
    assert (ran.code, ran.out) == (2, "")
    assert "is an archive, and an archive can only be read here; nothing was written" in ran.err


@pytest.mark.breaks("files", reason="the test damages a claim file")
def test_damage_is_told_by_name_and_place(root: Path, tmp_path: Path) -> None:
    with claim_file(root, len(LARGE)).open("r+b") as file:
        file.seek(100)
        file.write(b"?")
    for archive in ([], ["--archive", "none"]):
        ran = kvwal("content", "verify", root, "files/logs", *archive, "--json")
        *damaged, figures = [json.loads(line) for line in ran.out.splitlines()]
        assert (ran.code, ran.err) == (4, "")
        assert [(one["name"], one["offset"], one["bytes"]) for one in damaged] == [
            ("copy", 0, len(LARGE)), ("large", 0, len(LARGE)),
        ]  # fmt: skip
        assert figures["damaged"] == 2
    ran = kvwal("content", "verify", root, "files/logs")
    assert (ran.code, ran.out.splitlines()[-1]) == (4, "files/logs: 2 contents, 4.0 MiB: 2 damaged.")
    claim_file(root, len(LARGE)).unlink()
    ran = kvwal("content", "verify", root, "files/logs", "--archive", "none", "--json")
    assert ran.code == 4
    assert "there is no archive" in ran.out
    assert kvwal("content", "verify", root, "files/logs").code == 0
    ran = kvwal("content", "get", root, "files/logs", "large", "--archive", "none", "-o", tmp_path / "out")
    assert (ran.code, ran.out) == (4, "")
    assert not (tmp_path / "out").exists()


def test_get_gives_the_bytes_of_the_archive_where_those_beside_the_log_are_damaged(root: Path, tmp_path: Path) -> None:
    with claim_file(root, 8).open("r+b") as file:
        file.seek(2)
        file.write(b"?")  # of report/1
    with claim_file(root, len(LARGE)).open("r+b") as file:
        file.seek(len(LARGE) - 1)
        file.write(b"?")
    assert kvwal("content", "get", root, "files", "report/1") == Ran(0, "one\n", "")
    assert kvwal("content", "get", root, "files", "report/1", "--length", "4") == Ran(0, "one\n", "")
    assert kvwal("content", "get", root, "files", "report/2", "--archive", "none") == Ran(0, "two\n", "")
    target = tmp_path / "out"
    assert kvwal("content", "get", root, "files/logs", "large", "-o", target).code == 0
    assert target.read_bytes() == LARGE
    for archive in ("none", tmp_path / "empty"):
        ran = kvwal("content", "get", root, "files", "report/1", "--archive", archive)
        assert (ran.code, ran.out) == (4, ""), "not one wrong byte"
        assert "'report/1': its bytes are not those that were written" in ran.err
        ran = kvwal("content", "get", root, "files/logs", "large", "--archive", archive, "-o", tmp_path / "none")
        assert ran.code == 4
        assert not (tmp_path / "none").exists()


def test_get_gives_no_bytes_of_an_archive_that_are_damaged_too(root: Path, tmp_path: Path) -> None:
    for path in (claim_file(root, len(LARGE)), *root.glob("_archive/default/*/files/_content/*/*")):
        if path.stat().st_size == len(LARGE):
            path.write_bytes(bytes(len(LARGE)))
    ran = kvwal("content", "get", root, "files/logs", "large", "-o", tmp_path / "out")
    assert ran.code == 4
    assert not (tmp_path / "out").exists()


def on_terminal(*arguments: object) -> tuple[int, str]:
    """Exit code of a command, and what it prints with standard output and standard error on a terminal."""
    ours, theirs = pty.openpty()
    script = Path(sys.executable).with_name("kvwal")
    typed = [str(script), *map(str, arguments)]
    process = subprocess.Popen(typed, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    parts = []
    with suppress(OSError):  # Linux says so when the other end is closed
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    os.close(ours)
    return process.wait(), b"".join(parts).decode(errors="replace")


def test_a_terminal_gets_plain_text_only(root: Path) -> None:
    assert on_terminal("content", "get", root, "files", "report/1") == (0, "one\r\n")
    code, said = on_terminal("content", "get", root, "files/logs", "large")
    assert code == 2
    assert said.startswith("kvwal: 'large' is not plain text, and standard output is a terminal.")
    code, said = on_terminal("content", "get", root, "files/logs", "large", "--length", "3", "-o", "-")
    assert (code, said) == (0, "\x00\x01\x02")
    code, said = on_terminal("content", "put", root, "files", "a")
    assert (code, said) == (
        2,
        "kvwal: standard input is a terminal; nothing was put. Pipe data into the command, or name a FILE.\r\n",
    )


def test_a_progress_bar_is_for_a_terminal_and_large_files(root: Path, tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(bytes(SHOWN))
    small.write_bytes(b"s")
    code, said = on_terminal("content", "put", root, "files", "a", large)
    assert (code, "large" in said, "100%" in said) == (0, True, True)
    code, said = on_terminal("content", "get", root, "files", "a", "-o", tmp_path / "out")
    assert (code, "100%" in said) == (0, True)
    code, said = on_terminal("content", "put", root, "files", "a", small)
    assert (code, "100%" in said) == (0, False)
    ran = kvwal("content", "put", root, "files", "a", large)
    assert (ran.code, ran.err) == (0, "")
