"""The folder in which the lines of docs/mistakes.md are typed, and the servers that some of them name."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kvwal
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.events import checked
from tests.support.disk.mounts import mount, unmount
from tests.support.java.logs import GOLDEN
from tests.support.lineage.events import RUN, event

TOKEN = "the-token-of-this-cluster"
MANY = 20_000
"""Entries of `many`: more than a pipe holds."""
_FULL = 24 << 20
LAKE = {"namespace": "s3://lake"}


@contextmanager
def scene() -> Iterator[Path]:
    """The folder as the page describes it. Every user can reach it."""
    with tempfile.TemporaryDirectory(prefix="kvwal-mistakes-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        with kvwal.open(folder / "data") as store:
            store.map("jobs").update({"job-1": {"state": "RUNNING"}, "job-2": {"state": "FAILED"}})
            store.map("owners")["job-1"] = "ada"
            store.archive()
        with kvwal.open(folder / "post", archive=None) as store:
            store.queue("mail").put_many(["a letter", "a card"])
            store.business("mail").queue("urgent").put("a parcel")
            store.queue("work").put("a task")
            store.queue("work").set_options(capacity=1)
        with kvwal.open(folder / "papers", archive=None) as store:
            letters = store.business("letters")
            letters.content().put("2026/may", b"a letter\n")
            letters.content().put("2026/june", bytes(range(9)))
            letters.content("drafts").put("first", b"a draft\n")
            store.map("owners")["letters"] = "ada"
        with kvwal.open(folder / "many", archive=None) as store:
            store.map("many").put_many({f"key-{number:06}": number for number in range(MANY)})
        for name, mode in (("empty", 0o755), ("private", 0o700), ("shared", 0o755)):
            (folder / name).mkdir(mode=mode)
        for name in ("private", "shared"):
            with kvwal.open(folder / name / "data", archive=None) as store:
                store.map("jobs")["job-1"] = 1
        for path in (folder / "shared").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        events = [
            event(inputs=[LAKE | {"name": "raw/orders"}], outputs=[LAKE | {"name": "mart/sales"}]),
            event(run={"id": RUN}),
        ]
        with kvwal.open(folder / "graph", archive=None) as store:
            EventStore(store.map("openlineage"), "local").put([checked(events[0])])
        (folder / "bad-events.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
        (folder / "file").write_text("some text\n")
        (folder / "rows.csv").write_text("id,name\n1,ada\n2,\n,eve\n")
        (folder / "bad.jsonl").write_text('{"key": "a", "value": 1}\n{key: "b"}\n')
        (folder / "token").write_text(f"{TOKEN}\n")
        with foreign_logs(folder):
            yield folder


@contextmanager
def foreign_logs(folder: Path) -> Iterator[None]:
    """Logs of other products, and two channels of Flume: one of a later version, one that a running Flume has locked."""
    logs = {"imap": "seatunnel", "flowfile_repository": "nifi-sequential"}
    for name, log in (logs | dict.fromkeys(("channel", "channel-4", "running"), "flume")).items():
        shutil.copytree(GOLDEN / log, folder / name)
    shutil.copytree(GOLDEN / "flume", folder / "private" / "channel")
    for meta in (folder / "channel-4").rglob("*.meta"):
        meta.write_bytes(meta.read_bytes().replace(b"\x0d\x03\0\0\0", b"\x0d\x04\0\0\0", 1))
    with (folder / "running" / "data1" / "in_use.lock").open("wb") as lock:
        whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, whole_file)
        yield


@contextmanager
def small_disks(folder: Path) -> Iterator[None]:
    """`full`, a disk without room, and `readonly`, which is mounted so; each with a store."""
    if os.geteuid():
        pytest.skip("mounting a small disk needs root")
    for name in ("full", "readonly"):
        (folder / name).mkdir()
        mount("tmpfs", folder / name, folder / name, _FULL)
    try:
        for name in ("full", "readonly"):
            with kvwal.open(folder / name / "data", archive=None) as store:
                store.map("jobs")["job-1"] = 1
        with (folder / "full" / "filler").open("wb") as filler:
            try:
                while True:
                    filler.write(bytes(1 << 16))
                    filler.flush()
            except OSError:
                pass
        subprocess.run(["mount", "-o", "remount,ro", str(folder / "readonly")], check=True)
        yield
    finally:
        for name in ("full", "readonly"):
            unmount(folder / name)
