"""Maintenance of many businesses in one store: what one of them meets costs the others nothing, and is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import KvwalError, LogFailed
from kvwal.log.files.maintenance_failures import read_failures
from kvwal.node.health.metrics import Metrics
from kvwal.ports.disk import OS_DISK
from kvwal.store.sync import WritableStore
from tests.support.cli import kvwal as command
from tests.support.log.store import open_with_archiver
from tests.support.polling import until

OFTEN = kvwal.Settings(archive_seconds=0.01, checkpoint_seconds=0.01)


def test_an_unforeseen_error_ends_no_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of the other businesses nor, once it is gone, of the one that met it."""
    with open_with_archiver(tmp_path / "root", tmp_path / "archive", settings=OFTEN) as store:
        keepers = {name: store.map(name)._business.maintenance for name in ("a", "b", "c")}  # type: ignore[attr-defined]

        def fail(now: float) -> None:
            raise ZeroDivisionError("an unforeseen error")

        with monkeypatch.context() as broken:
            broken.setattr(keepers["b"]._schedule, "next_job", fail)
            for name in keepers:
                store.map(name)["key"] = 1
            until(lambda: all(keepers[name].archived for name in "ac") or None)
            of_b = store.stats()["businesses"]["b"]
            assert "ZeroDivisionError: an unforeseen error" in of_b["maintenance"]["tick"]
            assert store.stats()["businesses"]["a"]["maintenance"] == {}
            assert 'kvwal_maintenance_failing{business="b"} 1' in page(store)
        until(lambda: keepers["b"].archived or None)
        until(lambda: None if store.stats()["businesses"]["b"]["maintenance"] else True)
        assert 'kvwal_maintenance_failing{business="b"} 0' in page(store)


def page(store: kvwal.Store) -> str:
    return Metrics().page({}, store.stats()["businesses"], {}).decode()


def test_all_failures_of_a_close_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is raised, so that it can be caught by its class; every lock is let go of."""
    store = open_with_archiver(tmp_path, None)
    for name in "abc":
        store.map(name)["key"] = 1
    for name, error in (("a", LogFailed("the log of a")), ("c", OSError("the log of c"))):
        writer = store.map(name)._business.log.writer  # type: ignore[attr-defined]

        def fail(error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(writer.appender, "close", lambda *, seal, fail=fail: fail())
    with pytest.raises(LogFailed, match="the log of a") as raised:
        store.close()
    assert "c failed too" in "".join(raised.value.__notes__)
    (other,) = raised.value.others
    assert isinstance(other, KvwalError | OSError)
    with kvwal.open(tmp_path, archive=None) as again:
        assert [again.map(name)["key"] for name in "abc"] == [1, 1, 1]


class Blocked:
    """A store of the businesses `a` and `b`, each with an entry, and an archive that takes nothing of `b`."""

    def __init__(self, folder: Path) -> None:
        self.root, self.archive = folder / "root", folder / "archive"
        self._file = self.archive / "default" / "local" / "b"

    def block(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch()

    def unblock(self) -> None:
        self._file.unlink()

    def open(self) -> WritableStore:
        return open_with_archiver(self.root, self.archive, settings=OFTEN)

    def said(self, level: str, about: str = "archive") -> dict[str, str] | None:
        """What doctor says at this level of the failing job of `b`. It says nothing of the kind about `a`."""
        ran = command("doctor", self.root, "--archive", "none", "--json")
        told = [json.loads(line) for line in ran.out.splitlines()]
        found = [finding for finding in told if f"its {about} " in finding["found"]]
        assert not [finding for finding in found if finding["about"] != "default/local/b/local"]
        assert ran.code == any(finding["level"] == "problem" for finding in told)
        return next((finding for finding in found if finding["level"] == level), None)

    def since(self) -> int | None:
        """Since when the archive of `b` has failed, as the note says."""
        note = read_failures(OS_DISK, self.root / "default" / "local" / "b" / "local")
        return note["archive"].since_ms if note else None


@pytest.fixture
def blocked(tmp_path: Path) -> Blocked:
    return Blocked(tmp_path)


def write(store: WritableStore) -> None:
    for name in "ab":
        store.map(name)["key"] = 1


@pytest.mark.long
def test_doctor_says_which_maintenance_of_an_open_store_fails(blocked: Blocked) -> None:
    """Until it succeeds. The reason is the one that the store's stats have."""
    blocked.block()
    with blocked.open() as store:
        write(store)
        found = until(lambda: blocked.said("problem"))
        what = found["found"].split(": ", 1)[1]
        assert found["found"].startswith("its archive fails since 2")
        assert found["what to do"]
        assert store.stats()["businesses"]["b"]["maintenance"]["archive"].startswith(what)
        blocked.unblock()
        until(lambda: None if blocked.said("problem") else True)
        assert blocked.since() is None


@pytest.mark.long
def test_doctor_says_what_had_failed_when_a_store_was_closed(blocked: Blocked) -> None:
    """The next store begins without failures, and what fails there again has failed since the first time."""
    blocked.block()
    with blocked.open() as store:
        write(store)
        since = until(blocked.since)
    closed = blocked.said("note")
    assert closed is not None
    assert closed["found"].startswith("when it was closed, its archive had failed since 2")
    assert "kvwal archive run" in closed["what to do"]
    with blocked.open() as store:
        write(store)
        assert until(blocked.since) == since
        blocked.unblock()
        until(lambda: None if blocked.since() else True)
    assert blocked.said("note") is None


def test_a_call_that_succeeds_ends_the_failure_of_its_job(blocked: Blocked) -> None:
    """Not only the timer's own next try, which has nothing to do any more."""
    blocked.block()
    with blocked.open() as store:
        write(store)
        until(blocked.since)
        blocked.unblock()
        store.archive()
        assert store.stats()["businesses"]["b"]["maintenance"] == {}
        until(lambda: None if blocked.since() else True)


def test_a_note_that_cannot_be_read_is_none(blocked: Blocked) -> None:
    with blocked.open() as store:
        write(store)
        for content in (b"", b"\xff", b"[]", b'{"archive": 1}', b"{"):
            (blocked.root / "default" / "local" / "b" / "local" / "FAILURES").write_bytes(content)
            assert blocked.since() is None
            assert blocked.said("problem") is None
