"""What a map answers: the order of keys, prefixes, raw bytes, and what stands under a codec that is not known here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import kvwal
from kvwal.codecs import Codecs
from kvwal.errors import CodecError
from tests.support.disk.faults import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with open_store(tmp_path) as store:
        yield store


def test_iteration_is_in_the_order_of_identity(store: kvwal.Store) -> None:
    b = store.map("b")
    keys = [10, 9, -1, 300, "b", "a", "ß", "z", b"\xff", b"\x00", 2.5, -3.0, True, False, None]
    for key in keys:
        b[key] = repr(key)
    expected = [False, True, b"\x00", b"\xff", -3.0, 2.5, -1, 9, 10, 300, None, "a", "b", "z", "ß"]
    assert [(type(key), key) for key in b] == [(type(key), key) for key in expected]
    assert list(b.items()) == [(key, repr(key)) for key in expected]
    assert [entry.value.decode() for entry in b.entries()] == list(b.values()) == [value for _, value in b.scan()]
    assert len(b) == len(expected)


@pytest.mark.parametrize("begun", [False, True])
def test_an_iterator_shows_one_moment_over_all_classes_of_keys(store: kvwal.Store, begun: bool) -> None:
    b = store.map("b")
    b.put_many({1: "before", "a": "before"})
    seen = [iter(b.items()), b.scan()]
    names = iter(b)
    entries = b.entries()
    if begun:
        assert [next(iterator) for iterator in seen] == [(1, "before")] * 2
    with b.transaction() as t:
        t[1] = t["a"] = t["new"] = "after"
        t[0] = "after"
    assert [list(iterator) for iterator in seen] == [[(1, "before"), ("a", "before")][begun:]] * 2
    assert list(names) == [1, "a"]
    assert [entry.value for entry in entries] == [b"before"] * 2


@pytest.mark.parametrize("indexed_first", [False, True])
def test_a_prefix_takes_exactly_what_begins_with_it(store: kvwal.Store, indexed_first: bool) -> None:
    b = store.map("b")
    names = ["", "a", "a/1", "a/2", "a0", "b", "ß", "ßa", "\U0010ffff", "\U0010ffffa"]
    if indexed_first:
        assert list(b.scan("a")) == []
    b.put_many([(name, len(name)) for name in reversed(names)])
    b.put_many([(name.encode(), name) for name in names])
    for prefix in [*names, "a/", "c", "\U0010fffe"]:
        expected = sorted(name for name in names if name.startswith(prefix))
        assert [key for key, _ in b.scan(prefix)] == expected, prefix
        assert [entry.key.decode() for entry in b.entries(prefix)] == expected
        assert [key.decode() for key, _ in b.scan(prefix.encode())] == expected
    del b["a/1"]
    assert list(b.scan("a/")) == [("a/2", 3)]


def test_a_prefix_of_the_greatest_bytes(store: kvwal.Store) -> None:
    b = store.map("b")
    for key in (b"\xfe", b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\xff"):
        b[key] = 1
    assert [key for key, _ in b.scan(b"\xff")] == [b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\xff"]
    assert [key for key, _ in b.scan(b"\xff\xff")] == [b"\xff\xff", b"\xff\xff\xff"]
    assert [key for key, _ in b.scan(b"\xfe\xff")] == []


@pytest.mark.parametrize("prefix", [1, 1.5, [], True])
def test_a_prefix_is_text_bytes_or_a_tuple(store: kvwal.Store, prefix: object) -> None:
    with pytest.raises(CodecError, match="a prefix is str, bytes or a tuple"):
        list(store.map("b").scan(prefix))  # type: ignore[arg-type]


def test_an_entry_cannot_be_changed(store: kvwal.Store) -> None:
    b = store.map("b")
    timestamp = b.put("a", 1)
    entry = b.entry("a")
    assert entry == kvwal.DataEntry(b"a", "str", b"\x81\x01", "int", False, timestamp)
    with pytest.raises(AttributeError):
        entry.value = b""  # type: ignore[misc, union-attr]
    assert b.entry("b") is None


@dataclass
class Known:
    a: int


def test_what_an_unknown_codec_wrote_is_never_lost(
    store: kvwal.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written by a process that knows the codec, read by one that does not, and back."""
    knowing = Codecs()
    knowing.register(Known, "known", keys=True)
    monkeypatch.setattr("kvwal.store.open_business.registry", knowing)
    b = store.map("b")
    b.put_many([("value", Known(1)), (Known(2), "key"), ("plain", 3)])
    store.checkpoint()
    b["later"] = Known(4)
    store.close()
    monkeypatch.undo()
    for _ in range(2):
        with open_store(tmp_path) as stranger:
            b = stranger.map("b")
            assert (len(b), b["plain"]) == (4, 3)
            with pytest.raises(CodecError, match="'known' is not registered here"):
                b["value"]
            with pytest.raises(CodecError, match="raw bytes"):
                list(b)
            found = b.entry("later")
            assert found is not None
            assert (found.value, found.value_class) == (b'{"a":4}', "known")
            assert {entry.key_class for entry in b.entries()} == {"str", "known"}
            stranger.checkpoint()
    monkeypatch.setattr("kvwal.store.open_business.registry", knowing)
    with open_store(tmp_path) as again:
        b = again.map("b")
        assert [b["value"], b[Known(2)], b["later"]] == [Known(1), "key", Known(4)]  # type: ignore[comparison-overlap]


def test_bytes_that_a_codec_cannot_read(store: kvwal.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    careless = Codecs()
    careless.register(Known, "json@2", encode=lambda known: b"{", decode=lambda data: data)
    monkeypatch.setattr("kvwal.store.open_business.registry", careless)
    store.map("b")["a"] = Known(1)
    store.close()
    monkeypatch.undo()
    strict = Codecs()
    strict.register(Known, "json@2")
    monkeypatch.setattr("kvwal.store.open_business.registry", strict)
    with open_store(tmp_path) as again:
        with pytest.raises(CodecError, match="1 bytes are no 'json@2'"):
            again.map("b")["a"]
        assert again.map("b").entry("a") is not None


def test_a_refused_value_or_key_changes_nothing(store: kvwal.Store) -> None:
    b = store.map("b")
    b["a"] = 1
    refused: list[tuple[object, object]] = [
        ("a", {1: 2}),
        ("a", (1,)),
        ("a", {1}),
        (frozenset("a"), 1),
        (["a"], 1),
        (float("nan"), 1),
    ]
    for key, value in refused:
        with pytest.raises(CodecError):
            b[key] = value
        with pytest.raises(CodecError):
            b.put_many([("a", 2), (key, value)])
        with pytest.raises(CodecError):
            in_one_transaction(b, ("a", 2), (key, value))
    assert dict(b) == {"a": 1}
    assert store.stats()["businesses"]["b"]["last_sequence"] == 1


def in_one_transaction(b: kvwal.Map, *items: tuple[object, object]) -> None:
    with b.transaction() as t:
        for key, value in items:
            t[key] = value


def test_a_notebook_shows_the_first_entries_and_a_prompt_the_names(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        jobs = store.map("jobs")
        jobs.put_many({"<b>": {"text": "<i>"}, "long": "x" * 1000})
        assert repr(jobs) == f"<Map 'jobs' of <Store {str(tmp_path)!r}>>"
        shown = jobs._repr_html_()
        assert shown is not None
        assert "&lt;b&gt;" in shown
        assert "<i>" not in shown
        assert f"{'x' * 198}…</td>" in shown
        assert "of 2 keys" not in shown
        jobs.put_many({f"job-{number:02}": number for number in range(20)})
        many = jobs._repr_html_()
        assert many is not None
        assert many.count("<tr><th>") == 10 + 1
        assert many.endswith("<p>the first 10 of 22 keys</p>")
    assert jobs._repr_html_() is not None


def test_a_map_that_cannot_be_read_is_still_shown_by_its_name(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.map("jobs")["a"] = 1
    [segment] = tmp_path.rglob("*.wal")
    segment.write_bytes(b"\0" * 64 + segment.read_bytes()[64:])
    with kvwal.open(tmp_path, read_only=True) as store:
        jobs = store.map("jobs")
        assert jobs._repr_html_() is None
        assert repr(jobs) == "<Map 'jobs'>"
        assert repr(store) == f"<Store {str(tmp_path)!r}, read only>"
