"""Maintenance of many businesses in one store: what one of them meets costs the others nothing, and is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal.errors import KvwalError, LogFailed
from kvwal.node.health.metrics import Metrics
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
            broken.setattr(keepers["b"], "_due", fail)
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
