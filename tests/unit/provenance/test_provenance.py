"""The provenance of a business of an open store: events in the transaction of each change, searched, followed and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kvwal
from kvwal.ports.clock import SYSTEM
from kvwal.structures.facade import Structures
from kvwal.structures.provenance.event import Event
from kvwal_archive.layout import Place
from kvwal_archive.maintenance.compaction import gc, rewrite
from kvwal_archive.objects import open_objects


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path / "data", archive=tmp_path / "archive") as opened:
        yield opened


def types(events: list[Event]) -> list[str]:
    """The types of events, oldest first."""
    return [event.type for event in reversed(events)]


def test_each_change_of_a_map_is_an_event(store: kvwal.Store) -> None:
    provenance = store.provenance("work")
    jobs = store.map("work")
    put = jobs.put("job-1", {"state": "RUNNING"})
    changed = jobs.put("job-1", {"state": "DONE"})
    jobs.put("job-1", {"state": "DONE"}, ttl=1000)
    del jobs["job-1"]
    events = provenance.events(key="job-1")
    assert types(events) == ["create", "modify content", "modify attributes", "drop"]
    event = events[2]
    assert (event.key, event.timestamp, event.node, event.structure) == ("job-1", changed, "local", "")
    assert event.before is not None
    assert event.after is not None
    assert (event.before.value, event.before.timestamp) == ({"state": "RUNNING"}, put)
    assert (event.after.value, event.after.attributes) == ({"state": "DONE"}, {"state": "DONE"})
    assert event.parents == [event.before]
    assert event.children == [event.after]
    assert not provenance.events(key="job-2")


def test_what_was_changed_before_it_was_switched_on_has_no_event(store: kvwal.Store) -> None:
    store.map("work")["a"] = 1
    provenance = store.provenance("work")
    store.map("work")["a"] = 2
    provenance.set_options(on=False)
    store.map("work")["a"] = 3
    assert types(provenance.events()) == ["modify content"]
    assert store.business("work").map()["a"] == 3


def test_it_stays_switched_on_when_the_store_is_opened_again(tmp_path: Path) -> None:
    with kvwal.open(tmp_path) as store:
        store.provenance("work").set_options(keep_seconds=60)
    with kvwal.open(tmp_path) as store:
        store.map("work")["a"] = 1
        provenance = store.provenance("work")
        assert types(provenance.events()) == ["create"]
        assert provenance.options().keep_seconds == 60


def test_a_transaction_says_what_became_of_its_items(store: kvwal.Store) -> None:
    provenance, work = store.provenance("work"), store.business("work")
    work.queue("in").put_many(["a", "b", "c", "d", "e"])

    def step(puts: list[tuple[str, str]], takes: int = 1) -> Event:
        with work.transaction(component="step") as t:
            t.queue("in").take_many(takes)
            for name, value in puts:
                t.queue(name).put(value)
        event = provenance.events(limit=1)[0]
        assert event.component == "step"
        return event

    assert step([("out", "a")]).type == "route"
    assert step([("out", "B")]).type == "modify content"
    fork = step([("out", "c1"), ("out", "c2")])
    assert (fork.type, [item.value for item in fork.parents], [item.value for item in fork.children]) == (
        "fork", ["c"], ["c1", "c2"],
    )  # fmt: skip
    join = step([("out", "d+e")], 2)
    assert (join.type, [item.value for item in join.parents]) == ("join", ["d", "e"])
    work.queue("in").put("f")
    assert step([("out", "f"), ("other", "f")]).type == "clone"
    assert len(provenance.events(component="step")) == 5
    work.queue("out").purge()
    assert types(provenance.events(type="drop")) == ["drop"] * 6


def test_an_event_is_there_if_and_only_if_its_transaction_is(store: kvwal.Store) -> None:
    provenance, work = store.provenance("work"), store.business("work")
    work.queue().put("a")
    with pytest.raises(LookupError), work.transaction() as t:
        raise LookupError(t.queue().take())
    assert work.map().put_if_absent("k", 1)
    assert not work.map().put_if_absent("k", 2)
    assert work.map().pop("nothing", None) is None
    assert types(provenance.events()) == ["create", "create"]


def test_a_large_transaction_has_its_events(tmp_path: Path) -> None:
    settings = kvwal.Settings(overflow_bytes=1 << 16)
    with kvwal.open(tmp_path, settings=settings) as store:
        provenance = store.provenance("work")
        store.map("work").put_many({f"k{n}": "x" * 1000 for n in range(3000)})
        assert len(provenance.events(limit=None)) == 3000
    with kvwal.open(tmp_path) as store:
        assert store.map("work")["k2999"] == "x" * 1000
        store.checkpoint()
        assert len(store.provenance("work").events(type="create", limit=None)) == 3000


def test_what_is_no_change_is_said_by_hand(store: kvwal.Store) -> None:
    provenance, work = store.provenance("work"), store.business("work")
    work.map()["a"] = {"name": "x"}
    provenance.send("a", "https://example.org", status="200")
    with work.transaction(component="fetcher") as t:
        t.queue("in").put("body")
        t.map()["a"] = 2
        t.record("receive", "a", source="ftp")
    sent, received = provenance.events(type="send")[0], provenance.events(type="receive")[0]
    assert (sent.key, sent.details) == ("a", {"to": "https://example.org", "status": "200"})
    assert sent.before is not None
    assert sent.before.value == {"name": "x"}
    assert (received.component, received.before, received.after and received.after.value) == ("fetcher", None, 2)
    assert provenance.events(attributes={"status": "200"}) == [sent]
    with pytest.raises(kvwal.ConfigError, match="no event that a program says"):
        provenance.record("drop", "a")


@pytest.mark.parametrize("checkpointed", [False, True])
def test_events_are_found_by_time_type_component_attribute_and_text(store: kvwal.Store, checkpointed: bool) -> None:
    provenance, work = store.provenance("work"), store.business("work")
    stamps = [
        work.map().put(f"k{n}", {"state": "odd" if n % 2 else "even", "file": f"s3://lake/{n}"}) for n in range(6)
    ]
    if checkpointed:
        store.checkpoint()

    def keys(**asked: object) -> list[str]:
        return [event.key for event in provenance.events(**asked)]  # type: ignore[arg-type]

    assert keys(attributes={"state": "odd"}) == ["k5", "k3", "k1"]
    assert keys(text="LAKE 4") == ["k4"]
    assert keys(text="lake", limit=2) == ["k5", "k4"]
    assert keys(after=stamps[1], before=stamps[2]) == ["k2", "k1"]
    assert keys(type="create", attributes={"state": "even"}, before=stamps[3]) == ["k2", "k0"]
    assert keys(text="nowhere") == []
    with pytest.raises(kvwal.ConfigError, match="no type of an event"):
        keys(type="made")
    with pytest.raises(kvwal.ConfigError, match="has no word"):
        keys(text="--")


def flow(work: Structures) -> None:
    """An item through three queues; it is split, and one of its parts is stored."""
    work.queue("a").put("x y")
    with work.transaction() as t:
        t.queue("b").put(t.queue("a").take())
    with work.transaction() as t:
        t.queue("c").put_many(t.queue("b").take().split())
    with work.transaction() as t:
        t.queue("d").put(t.queue("c").take().upper())
    work.queue("other").put("not of it")


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_lineage_of_an_item_goes_up_and_down(store: kvwal.Store, checkpointed: bool) -> None:
    provenance, work = store.provenance("work"), store.business("work")
    flow(work)
    if checkpointed:
        store.checkpoint()
    fork = provenance.events(type="fork")[0]
    part = fork.children[0]
    whole = provenance.lineage(part.key, of="queue/c")
    assert [event.type for event in whole] == ["create", "route", "fork", "modify content"]
    up = provenance.lineage(part.key, of="queue/c", down=False, depth=2)
    assert [event.type for event in up] == [
        "route",
        "fork",
        "modify content",
    ]  # the last event of its key, and two steps
    first = provenance.events(type="create", text="x y")[0]
    assert provenance.lineage(first.key, of="queue/a") == whole


def test_the_scene_of_nifis_documents(store: kvwal.Store, tmp_path: Path) -> None:
    """F1 with the content C1 is compressed to F1.1 with C2. Provenance points to both. C1 is replayed while it is there."""
    provenance, work = store.provenance("work"), store.business("work")
    c1, c2 = "content one " * 10_000, "compressed " * 2_000
    work.queue("incoming").put(c1)
    with work.transaction(component="CompressContent") as t:
        assert t.queue("incoming").take() == c1
        t.queue("compressed").put(c2)
    store.checkpoint()
    event = provenance.events(type="modify content")[0]
    assert event.before is not None
    assert event.after is not None
    assert (event.before.size, event.after.size) == (len(c1), len(c2))
    assert not event.before.is_whole  # it is in the log and the archive, and not in the event

    provenance.replay(event)
    assert list(work.queue("incoming").browse()) == [c1]
    replayed = provenance.events(type="replay")[0]
    assert replayed.parents == [event.before]
    assert replayed.component == "queue/incoming"
    assert replayed in provenance.lineage(event.before.key, of="queue/incoming")

    work.queue("incoming").purge()
    store.archive()
    clean_up(tmp_path)
    store.checkpoint()
    with pytest.raises(kvwal.ContentGone, match=r"work/queue/incoming: the content of .* 120,000 bytes, .* is gone"):
        provenance.replay(event)
    assert list(work.queue("incoming").browse()) == []


def clean_up(folder: Path) -> None:
    """The archive keeps no history, and is compacted."""
    objects, place = open_objects(str(folder / "archive")), Place("default", "local", "work", "local")
    now = SYSTEM.wall_ms() + 1
    assert rewrite(objects, place, now_ms=now, history_ms=0, force=True)
    gc(objects, place, now_ms=now, grace_ms=0)


def test_the_events_of_another_process_are_read_without_its_lock(store: kvwal.Store, tmp_path: Path) -> None:
    store.provenance("work")
    store.map("work")["a"] = 1
    with kvwal.open(tmp_path / "data", read_only=True) as reader:
        assert types(reader.provenance("work").events()) == ["create"]
        with pytest.raises(kvwal.ConfigError, match="read_only"):
            reader.provenance("work").send("a", "nowhere")


def test_a_backup_and_a_restore_have_the_events(store: kvwal.Store, tmp_path: Path) -> None:
    provenance = store.provenance("work")
    for n in range(3):
        store.map("work")[f"k{n}"] = n
        store.checkpoint()
    store.map("work")["tail"] = 3
    everything = provenance.events()
    assert len(everything) == 4
    store.backup(tmp_path / "copy")
    store.archive()
    kvwal.restore(tmp_path / "archive", tmp_path / "new")
    for root in ("copy", "new"):
        with kvwal.open(tmp_path / root, archive=None) as copy:
            assert copy.provenance("work").events() == everything
            copy.map("work")["more"] = 1
            copy.checkpoint()
            assert copy.provenance("work").events()[1:] == everything


def test_the_table_and_the_history_of_a_map_do_not_show_it(store: kvwal.Store) -> None:
    store.provenance("work")
    store.map("work")["a"] = 1
    assert store.sql("SELECT key FROM work").num_rows == 1
    assert [change.key for change in store.map("work").history("a")] == [b"a"]


def test_threads_may_search_at_the_same_time(store: kvwal.Store) -> None:
    provenance = store.provenance("work")
    store.map("work").put_many({f"k{n}": {"word": f"w{n}"} for n in range(3_000)})
    store.checkpoint()

    def look(thread: int) -> None:
        for n in range(thread, 3_000, 37):
            assert [event.key for event in provenance.events(text=f"w{n}")] == [f"k{n}"]

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(look, thread) for thread in range(4)]:
            done.result()
