"""What expires leaves an event, once, also over restarts."""

from __future__ import annotations

from pathlib import Path

import kvwal
from tests.support.disk.faults import FakeClock, open_store
from tests.support.polling import until


def expired(store: kvwal.Store) -> list[object]:
    """The values of the items that events say have expired, newest first."""
    events = store.provenance("work").events(type="expire", limit=None)
    assert not [event for event in events if event.children]
    return [item.value for event in events for item in event.parents]


def test_what_expires_leaves_an_event_once(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock, archive=None) as store:
        work = store.business("work")
        store.provenance("work").set_options(keep_seconds=None)  # the clock of the archiver is the real one
        work.map().put("a", 1, ttl=10)
        work.map("state").put("b", 2, ttl=10)
        work.queue().put(3, ttl=10)
        work.map().put("stays", 4, ttl=1000)
        store.checkpoint()
        clock.ms += 20_000
        until(lambda: len(expired(store)) == 3 or None)
        assert sorted(map(str, expired(store))) == ["1", "2", "3"]
        store.checkpoint()
    for _ in range(2):  # the base of the snapshot may still have what expired
        with open_store(tmp_path, clock=clock, archive=None) as store:
            work = store.business("work")
            work.map().put("more", 5, ttl=5)
            clock.ms += 10_000
            count = len(expired(store))
            until(lambda count=count: len(expired(store)) > count or None)  # type: ignore[misc]
    with open_store(tmp_path, clock=clock, archive=None) as store:
        assert sorted(map(str, expired(store))) == ["1", "2", "3", "5", "5"]


def test_a_put_in_place_of_what_expired_leaves_both_events(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path, clock=clock, archive=None) as store:
        work = store.business("work")
        provenance = store.provenance("work")
        work.map().put("a", 1, ttl=10)
        clock.ms += 20_000
        work.map().put("a", 2)
        until(lambda: expired(store) == [1] or None)
        assert sorted(event.type for event in provenance.events(key="a")) == ["create", "create", "expire"]
