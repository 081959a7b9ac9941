"""A store whose large values stand beside the log is a store: every reader shows what one with all values in the log shows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvwal
from kvwal.key_class import OWN_MAP
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.structures.facade import Structures
from kvwal_archive.objects import open_objects
from kvwal_archive.verify import verify
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import open_store

BEGIN = date(2020, 1, 1)
LIMITS = (8, 1 << 20)
"""Nearly all values are large for the one, and none is for the other."""
values = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20),
    st.integers(),
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3),
    st.floats(allow_nan=False),
)
keys = st.sampled_from("abc")
names = st.sampled_from(["", "named"])
Call = Callable[[Structures], Any]
steps: st.SearchStrategy[Call] = st.one_of(
    st.builds(lambda name, key, value: lambda b: b.map(name).put(key, value) > 0, names, keys, values),
    st.builds(lambda key, value: lambda b: b.map().put(key, value, ttl=1000) > 0, keys, values),
    st.builds(lambda name, key: lambda b: b.map(name).pop(key, None), names, keys),
    st.builds(lambda key, ttl: lambda b: b.map().touch(key, ttl), keys, st.sampled_from([None, 500])),
    st.builds(lambda key, old, new: lambda b: b.map().replace(key, old, new), keys, values, values),
    st.builds(lambda key, new: lambda b: b.map().replace(key, b.map().get(key), new), keys, values),
    st.builds(lambda key, old: lambda b: b.map().remove(key, old), keys, values),
    st.builds(lambda items: lambda b: b.map().put_many(items) > 0, st.dictionaries(keys, values, min_size=1)),
    st.builds(
        lambda name, items: lambda b: b.queue(name).put_many(items) > 0, names, st.lists(values, min_size=1, max_size=3)
    ),
    st.builds(lambda name, most: lambda b: b.queue(name).take_many(most), names, st.integers(1, 3)),
    st.builds(lambda most: lambda b: b.queue().move("named", most), st.integers(1, 2)),
    st.just(lambda b: b._store.checkpoint()),
    st.just(lambda b: b._store.archive()),
)


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(script=st.lists(st.tuples(steps, st.booleans()), min_size=3, max_size=15))
def test_no_reader_sees_where_values_stand(script: list[tuple[Call, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        roots = [Path(folder) / str(limit) for limit in LIMITS]
        stores = [stack.enter_context(opened(root, limit)) for root, limit in zip(roots, LIMITS, strict=True)]
        businesses = [store.business("b") for store in stores]
        for call, looks in script:
            one, other = (call(business) for business in businesses)
            assert one == other
            if looks:
                one, other = map(seen, businesses)
                assert one == other
        one, other = (told(store, root) for store, root in zip(stores, roots, strict=True))
        assert one == other
        assert verify(open_objects(str(roots[0] / "_archive"))).findings == []


def opened(root: Path, limit: int) -> kvwal.Store:
    settings = kvwal.Settings(inline_bytes=limit)
    return open_store(root, archive=str(root / "_archive"), start_archiver=lambda: InProcess(""), settings=settings)


def seen(business: Structures) -> list[Any]:
    """What the handles show."""
    maps = [business.map(), business.map("named")]
    queues = [business.queue(), business.queue("named")]
    shown: list[Any] = [(list(m.items()), list(m.range("a", "c"))) for m in maps]
    shown += [list(q.browse()) for q in queues]
    shown += [[bare(entry) for entry in m.history(key)] for m in maps for key in "abc"]
    shown += [[bare(entry)[2:] for entry in made.watch(after=BEGIN).poll()] for made in (*maps, *queues)]
    return shown


def told(store: kvwal.Store, root: Path) -> list[Any]:
    """What readers of the files and of the archive show, and the tables."""
    store.archive()
    shown: list[Any] = []
    for location in (root, root / "_archive"):
        with open_reader(parse_location(OS_DISK, str(location)), Names("default", "local")) as reader:
            if "b" in reader.businesses():
                business = reader.read_business("b", logged=True)
                shown += [list(map(bare, business.entries())), business.count()]
                shown += [list(map(bare, business.of_structure(name) or ())) for name in ("map/named",)]
                shown += [[bare(entry)[2:] for entry in business.of_structure("queue/*") or ()]]
                shown += [list(map(bare, business.history("str", key.encode()))) for key in "abc"]
                shown += [None if (found := business.find("str", b"a")) is None else bare(found)]
                shown += [[bare(entry) for entry in business.as_of((1 << 62) - 1, OWN_MAP).all_ordered()]][:0]
    for table in ("b", "b_history", "b/map/named", "b/queue/*"):
        rows = store.sql(f'SELECT raw, value, value_class FROM "{table}" ORDER BY timestamp, key').to_pylist()
        shown.append(rows)
    return shown


def bare(entry: kvwal.DataEntry) -> tuple[Any, ...]:
    """An entry without its timestamps, which differ from store to store. Its key comes first: that of an item is a timestamp."""
    return entry.key, entry.key_class, entry.value, entry.value_class, entry.deleted, bool(entry.expires)
