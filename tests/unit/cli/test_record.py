"""`kvwal record`: what it leaves beside the records."""

from __future__ import annotations

import base64
import random
import re
from pathlib import Path

import pytest

from kvwal.cli.spark import record
from tests.support.cli import kvwal
from tests.support.disk.mounts import small_disk
from tests.support.event_logs import event_log

EVENTS = 12
"""Lines of the event log of two jobs, at least."""


@pytest.mark.parametrize(("many", "snapshots"), [(EVENTS, 1), (1_000, 0)], ids=["many events", "few events"])
def test_many_events_are_followed_by_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, snapshots: int
) -> None:
    monkeypatch.setattr(record, "MANY_EVENTS", many)
    (tmp_path / "app-1").write_bytes(event_log("app-1", 2))
    root = tmp_path / "root"
    ran = kvwal("record", root, tmp_path / "app-1")
    assert ran.code == 0, ran.err
    assert len(list(root.rglob("*.snapshot"))) == snapshots
    assert "app-1" in kvwal("jobs", root).out


@pytest.mark.parametrize("words", [(), ("--follow",)], ids=["once", "--follow"])
def test_a_folder_of_spools_beside_event_logs_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "app-1").write_bytes(event_log("app-1", 2))
    ran = kvwal("record", tmp_path / "root", tmp_path / "app-1", "--spool", tmp_path / "spools", *words)
    assert (ran.code, "--spool is for spools, and not for event logs" in ran.err) == (2, True), ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["app-1"]


@pytest.mark.long
def test_a_disk_without_room_for_the_snapshot_has_all_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MANY_EVENTS", EVENTS)
    chance = random.Random(1)  # with descriptions that are alike a snapshot takes hardly any room
    log = re.sub(rb"job \d+", lambda found: base64.b64encode(chance.randbytes(600)), event_log("app-1", 3_000))
    (tmp_path / "app-1").write_bytes(log)
    with small_disk("tmpfs", 9 << 20) as disk:
        ran = kvwal("record", disk, tmp_path / "app-1")
        assert ran.code == 0, ran.err
        assert "no snapshot of them yet" in ran.err
        assert "complete" in ran.out
        assert not list(disk.rglob("*.snapshot"))
        assert len(kvwal("jobs", disk, "app-1", "--json").out.splitlines()) > 6_000
