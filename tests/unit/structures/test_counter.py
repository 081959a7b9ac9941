"""How to add a structure, followed by a structure of counters: what stands below structures goes on as for a map."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import kvwal
from kvwal.entry import DataEntry
from kvwal.structures.memory import STRUCTURES
from kvwal.structures.transaction import Transaction
from tests.support.cli import kvwal as command
from tests.unit.structures import counter
from tests.unit.structures.counter import amount, counters

WHOLE = {"hits": 5, "misses": 2}
VALUES = 'SELECT key, value::INT AS value FROM "web/counter" ORDER BY key'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed store: a map, and counters beside it, over a checkpoint, an archived segment and a tail."""
    root = tmp_path / "root"
    with kvwal.open(root, archive=tmp_path / "archive") as store:
        pages, web = store.map("web"), counters(store, "web")
        pages["index"] = "a page"
        assert web.add("hits")
        store.checkpoint()
        assert web.add("hits", 4)
        store.archive()
        assert web.add("misses", 2)
    return root


def found(root: Path) -> dict[str, int]:
    with kvwal.open(root) as store:
        assert dict(store.map("web")) == {"index": "a page"}
        return {name: counters(store, "web").value(name) for name in WHOLE}


def test_a_structure_is_under_150_lines() -> None:
    assert len(Path(counter.__file__).read_text().splitlines()) < 150


def test_it_is_there_after_a_checkpoint_an_archive_and_an_open(root: Path) -> None:
    assert found(root) == WHOLE


def test_every_acknowledged_addition_is_there_after_a_kill(tmp_path: Path) -> None:
    program = [sys.executable, "-m", counter.__name__, str(tmp_path)]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(100)]
        child.send_signal(signal.SIGKILL)
        acknowledged += map(int, child.stdout.read().split())
    assert acknowledged == list(range(1, len(acknowledged) + 1))
    with kvwal.open(tmp_path, archive=None) as store:
        assert counters(store, "web").value("hits") - len(acknowledged) in (0, 1)  # one may have been under way
        assert len(store.map("web")) == 0


def test_a_restore_brings_it_back(root: Path, tmp_path: Path) -> None:
    kvwal.restore(tmp_path / "archive", tmp_path / "again")
    assert found(tmp_path / "again") == WHOLE


def test_a_program_that_does_not_know_it_keeps_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a write, a clear, a checkpoint and an archive of the older program, and after its map was emptied."""
    with monkeypatch.context() as older, kvwal.open(root) as store:
        older.delitem(STRUCTURES, counter.KIND)
        pages = store.map("web")
        pages["other"] = 1
        pages.clear()
        assert len(pages) == 0
        pages["index"] = "a page"
        store.checkpoint()
        store.archive()
    assert found(root) == WHOLE


def test_a_watch_shows_its_changes_and_one_of_the_map_does_not(root: Path) -> None:
    with kvwal.open(root) as store:
        web = counters(store, "web")
        watch, of_map = web.watch(), store.map("web").watch()
        web.add("hits")
        store.map("web")["other"] = 1
        assert [amount(change) for change in watch.poll()] == [6]
        assert [change.key for change in of_map.poll()] == [b"other"]
        assert web.history("hits") == [6, 5, 1]


def test_sql_reads_it_and_its_history_and_the_map_as_before(root: Path) -> None:
    with kvwal.open(root) as store:
        assert store.sql(VALUES).to_pylist() == [{"key": "hits", "value": 5}, {"key": "misses", "value": 2}]
        past = store.sql(
            """SELECT value::INT AS value FROM "web/counter_history" WHERE key = 'hits' ORDER BY timestamp"""
        )
        assert past.column("value").to_pylist() == [1, 5]
        assert store.sql("SELECT key FROM web").column("key").to_pylist() == ["index"]
        assert store.sql("SELECT key FROM web_history").column("key").to_pylist() == ["index"]
    with kvwal.open(root, read_only=True) as store:
        assert len(store.sql(VALUES)) == 2
        with pytest.raises(kvwal.ConfigError, match="web/counters"):
            store.sql('FROM "web/counters"')


def test_a_scrub_reads_it_and_finds_its_damage(root: Path) -> None:
    assert command("log", "verify", root).code == 0
    assert command("doctor", root).code == 0
    [damaged] = [path for path in root.rglob("*.wal") if b"misses" in path.read_bytes()]
    damaged.write_bytes(damaged.read_bytes().replace(b"misses", b"Misses"))
    assert command("log", "verify", root).code != 0


def test_no_addition_is_lost_among_threads_and_a_limit_holds(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        web = counters(store, "web")
        outcomes: list[bool] = []

        def add(name: str) -> None:
            outcomes.extend([web.add(name, most=250) for _ in range(50)])

        threads = [threading.Thread(target=add, args=(f"c{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(outcomes) == sum(web.value(f"c{number}") for number in range(8)) == 250
        assert not counters(store, "web", "named").value("c0")


def test_a_transaction_commits_it_with_the_map(root: Path) -> None:
    with kvwal.open(root) as store:
        pages, web = store.map("web"), counters(store, "web")
        before = store.stats()["businesses"]["web"]["last_sequence"]
        with Transaction(pages._business) as t:
            web.set_in(t.changes, "hits", 0)
            t.changes.add(pages._changes.put("index", "another"))
        stamps = {entry.timestamp for entry in (pages.history("index")[0], latest(store, "hits"))}
        assert stamps == {t.timestamp}
        assert store.stats()["businesses"]["web"]["last_sequence"] == before + 2
        with pytest.raises(ZeroDivisionError), Transaction(pages._business) as t:
            web.set_in(t.changes, "hits", 1 // 0)
        assert web.value("hits") == 0
        pages.clear()
        assert web.value("misses") == 2


def latest(store: kvwal.Store, name: str) -> DataEntry:
    return store.map("web")._business.history("counter:str", name.encode())[0]
