"""`kvwal import seatunnel|flume|nifi` on logs that the real libraries wrote: into a store, twice, damaged, cut, and killed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.support.cli import kvwal as run
from tests.support.java.golden_logs import Found, expected, flume, nifi, seatunnel
from tests.support.java.logs import GOLDEN

LOGS = {
    "seatunnel": GOLDEN / "seatunnel" / "cluster",
    "flume": GOLDEN / "flume",
    "nifi": GOLDEN / "nifi-sequential",
}
CODES = {"seatunnel": 0, "flume": 0, "nifi": 4}
"""NiFi's golden log has a swap file, which is named."""


@pytest.fixture(params=LOGS)
def product(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stored(root: Path) -> list[Any]:
    """What an import put, in order."""
    with kvwal.open(root, archive=None, read_only=True) as store:
        found: list[Any] = []
        for name in store.businesses():
            if name == "flume":
                found += store.queue("flume").browse()
            else:
                found += [(type(key), key, value) for key, value in store.map(name).items()]
    return found


def items_of_flume(folder: Path) -> list[dict[str, Any]]:
    """The items that the events of the golden log become."""
    items = []
    for event in flume(folder, Found()):
        item = {"headers": event["headers"], "body": event["body"], "body_encoding": "base64"}
        try:
            text = base64.b64decode(event["body"]).decode()
        except UnicodeDecodeError:
            pass
        else:
            item = {"headers": event["headers"], "body": text}
        items.append(item)
    return items


def wanted(product: str, folder: Path) -> list[Any]:
    if product == "flume":
        return items_of_flume(folder)
    read = seatunnel if product == "seatunnel" else nifi
    return [(*key, value) for key, value in read(folder, Found()).items()]


def same(one: list[Any], other: list[Any], product: str) -> bool:
    return one == other if product == "flume" else sorted(map(repr, one)) == sorted(map(repr, other))


def test_a_log_is_imported_and_imported_again_it_is_there_once(product: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    first = run("import", product, LOGS[product], root, "--json")
    assert first.code == CODES[product], first
    there = stored(root)
    assert len(there) > 10
    assert same(there, wanted(product, LOGS[product]), product)
    second = run("import", product, LOGS[product], root, "--json")
    assert second.code == CODES[product], second
    assert stored(root) == there
    counts = json.loads(second.out).get("maps", {}).get("jobs") or json.loads(second.out)
    assert (counts["put"], counts["unchanged"]) == (0, len(there))


def test_events_that_were_taken_after_an_import_do_not_come_back(tmp_path: Path) -> None:
    root = tmp_path / "store"
    assert run("import", "flume", LOGS["flume"], root, "--queue", "work/todo").code == 0
    with kvwal.open(root, archive=None) as store:
        taken = store.business("work").queue("todo").take_many(1000)
    assert taken == items_of_flume(LOGS["flume"])
    again = run("import", "flume", LOGS["flume"], root, "--queue", "work/todo")
    assert again.out == f"work/todo: 0 items were put, {len(taken)} were imported before.\n"
    other = run("import", "flume", LOGS["flume"], root, "--queue", "work")
    assert other.out == f"work: {len(taken)} items were put.\n", "each queue has a ledger of its own"


def test_keys_that_the_log_deletes_later_are_deleted_by_a_later_import(tmp_path: Path) -> None:
    """The first import sees the first part of the log, as a copy of a running system is."""
    root, early = tmp_path / "store", tmp_path / "early" / "cluster"
    shutil.copytree(LOGS["seatunnel"], early)
    regions = sorted((early / "jobs").iterdir(), key=lambda path: int(path.name))
    shutil.rmtree(regions[1])
    assert run("import", "seatunnel", early, root).code == 0
    there = {key for _, key, _ in stored(root)}
    ran = run("import", "seatunnel", LOGS["seatunnel"], root, "--json")
    assert ran.code == 0
    assert same(stored(root), wanted("seatunnel", LOGS["seatunnel"]), "seatunnel")
    gone = there - {key for _, key, _ in stored(root)}
    assert "gone" in gone
    assert json.loads(ran.out)["maps"]["jobs"]["deleted"] == len(gone)


def largest_file(folder: Path) -> Path:
    """The file with the most records of a log."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".jsonl", ".md", ".meta")]
    return max(paths, key=lambda path: path.stat().st_size)


def test_a_damaged_log_is_imported_but_for_what_is_named(product: str, tmp_path: Path) -> None:
    copy, root = tmp_path / "log", tmp_path / "store"
    shutil.copytree(LOGS[product], copy)
    path = largest_file(copy)
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + b"\xff" * 8 + data[middle + 8 :])
    ran = run("import", product, copy, root)
    assert ran.code == 4, ran
    assert f"kvwal: {path}: bytes " in ran.err
    assert "are damaged and not imported" in ran.err
    there = stored(root)
    whole = wanted(product, LOGS[product])
    lost = [each for each in whole if each not in there]
    assert there
    assert len(lost) <= 6, "one transaction, or one record"
    assert run("import", product, LOGS[product], root).code == CODES[product], "the log was brought back from a backup"
    missing = [each for each in whole if each not in stored(root)]
    assert not missing


def test_a_cut_log_is_imported_up_to_the_cut(product: str, tmp_path: Path) -> None:
    """A crash cuts the file that is written: each product takes that for the end, and so does the import."""
    copy, root = tmp_path / "log", tmp_path / "store"
    shutil.copytree(LOGS[product], copy)
    logs = [path for path in copy.rglob("*") if path.name == "wal.txt" or path.suffix == ".journal"]
    logs += [path for path in copy.rglob("log-*") if path.suffix != ".meta"]
    path = max(logs, key=lambda path: (path.stat().st_size, path.name))
    data = path.read_bytes().rstrip(b"\x80")
    path.write_bytes(data[:-3])
    ran = run("import", product, copy, root)
    assert ran.code == CODES[product], ran
    assert "a crash cut the last write short" in ran.err
    assert stored(root)
    assert same(stored(root), wanted(product, copy), product)


MAIN = "from kvwal.cli.main import main; main()"
KILLED = """
import os, signal, sys
from kvwal.cli.importers import events, maps
from kvwal.cli.main import main
events.BATCH_ENTRIES = maps.BATCH_ENTRIES = 3
calls, left, real = 0, int(sys.argv.pop(1)), os.fdatasync
def dying(descriptor):
    global calls
    calls += 1
    if calls == left:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(descriptor)
os.fdatasync = dying
main()
"""


@pytest.mark.parametrize("after", [3, 4, 5, 7])
@pytest.mark.variants(4)
def test_an_import_that_was_killed_is_completed_by_the_next_one(product: str, after: int, tmp_path: Path) -> None:
    root = tmp_path / "store"
    command = [sys.executable, "-c", KILLED, str(after), "import", product, str(LOGS[product]), str(root)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    ran = run("import", product, LOGS[product], root, "--accept-clock")
    assert ran.code == CODES[product], ran
    assert same(stored(root), wanted(product, LOGS[product]), product)


def test_a_log_that_its_product_has_locked_is_refused(tmp_path: Path) -> None:
    for product, name in (("flume", "data1/in_use.lock"), ("nifi", "wali.lock")):
        copy = tmp_path / product
        shutil.copytree(LOGS["flume"] if product == "flume" else GOLDEN / "nifi-minimal", copy)
        with open(copy / name, "wb") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            typed = [sys.executable, "-c", MAIN, "import", product, str(copy), str(tmp_path / "store")]
            ran = subprocess.run(typed, capture_output=True, text=True, check=False)
        assert ran.returncode == 3, ran
        assert f"has locked {lock.name.rpartition('/')[2]} in" in ran.stderr
    assert not (tmp_path / "store").exists()


def test_a_store_may_be_called_as_a_product_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that imported a file into it before there were imports of logs still do."""
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"key": "a", "value": 1}\n')
    Path("channel").symlink_to(LOGS["flume"])
    assert run("import", "flume", "jobs", "rows.jsonl").out == "1 entry was put.\n"
    for _ in range(2):
        assert run("import", "flume", "channel", "flume").code == 0
    with kvwal.open("flume", archive=None, read_only=True) as store:
        assert dict(store.map("jobs")) == {"a": 1}
        assert list(store.queue("flume").browse()) == items_of_flume(LOGS["flume"])


def test_a_large_event_is_left_out_and_named(tmp_path: Path) -> None:
    copy = tmp_path / "jobs"
    region = copy / "1"
    region.mkdir(parents=True)
    (region / "wal.txt").write_bytes(
        seatunnel_record("x" * (6 << 20), b"large", 1) + seatunnel_record("small", b"y", 2)
    )
    ran = run("import", "seatunnel", copy, tmp_path / "store")
    assert (ran.code, ran.out) == (4, "jobs: 1 entry was put.\n"), ran
    assert "wal.txt: at byte 0: " in ran.err
    assert stored(tmp_path / "store") == [(str, "small", b"y")]


def seatunnel_record(key: str, value: bytes, timestamp: int) -> bytes:
    """A record with a value of a user's class."""
    wrapped = b"\x0b\x4a" + varint(len(key)) + key.encode() + b"\x0c"
    message = b"\x08\0\x12" + varint(len(wrapped)) + wrapped + b"\x1a\x10java.lang.String"
    message += b"\x22" + varint(len(value)) + value + b"\x2a\x03x.Y\x30" + varint(timestamp)
    return struct.pack("<i", len(message)) + bytes(8) + message


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.long
def test_a_log_of_more_than_two_gibibytes_is_read_in_flat_memory(tmp_path: Path) -> None:
    """SeaTunnel itself cannot read it: it takes a file for an array of Java. Values of zeros, so that the file has holes."""
    region = tmp_path / "jobs" / "1"
    region.mkdir(parents=True)
    value, number = bytes(1 << 20), 0
    with open(region / "wal.txt", "wb") as log:
        while log.tell() <= 1 << 31:
            record = seatunnel_record(f"key-{number % 5}", value, number)
            head = record.index(value)
            log.write(record[:head])
            log.seek(len(value), os.SEEK_CUR)
            log.write(record[head + len(value) :])
            number += 1
    program = (
        "import sys; from kvwal.cli.main import main\n"
        "try: main()\n"
        "finally: print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0], file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "import", "seatunnel", str(tmp_path / "jobs"), str(tmp_path / "store")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran
    assert ran.stdout == "jobs: 5 entries were put.\n"
    assert int(ran.stderr.split()[-1]) < 200 << 10
    assert len(expected(GOLDEN / "seatunnel")) > 5
