"""What a codec takes comes back equal and of its type; a value that would not is refused before anything is written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvwal
from kvwal.codecs import Codecs, registry
from kvwal.errors import CodecError, ConfigError


@dataclass
class Job:
    name: str
    tries: int = 0


class Stage(msgspec.Struct):
    number: int
    tags: list[str]


@dataclass
class Pair:
    both: tuple[Any, ...]


class Text(str):
    __slots__ = ()


LOOP: list[Any] = []
LOOP.append(LOOP)

VALUES = ["", "ß\U0001f600", 0, -1, 1 << 900, -(1 << 900), 0.0, -2.5, math.inf, True, False, None, b"", b"\x00\xff"]
JSON = [
    {},
    [],
    {"a": [1, 2.5, True, None, "ß", {"b": []}]},
    {"most": (1 << 64) - 1, "least": -(1 << 63)},
    {"whole": 1.0},
]


@pytest.mark.parametrize("value", VALUES + JSON, ids=repr)
def test_a_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    back = registry.decode(*registry.encode_value(value))
    assert type(back) is type(value)
    assert back == value
    assert repr(back) == repr(value)


@pytest.mark.parametrize("key", VALUES, ids=repr)
def test_a_key_comes_back_equal_and_of_its_type(key: Any) -> None:
    back = registry.decode(*registry.encode_key(key))
    assert type(back) is type(key)
    assert back == key


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "no codec for"),
        ((1, 2), "no codec for"),
        ({1, 2}, "no codec for"),
        (Text("a"), "no codec for"),
        (bytearray(b"a"), "no codec for"),
        (1 << 8 * 127, "too long"),
        (math.nan, "NaN"),
        ("\ud800", "cannot encode"),
        ({1: "a"}, "a key inside JSON must be a str"),
        ({"a": (1,)}, "JSON cannot bring back"),
        ({"a": Text("b")}, "JSON cannot bring back"),
        ({"a": b"b"}, "JSON cannot bring back"),
        ([1 << 64], "more than 64 bits"),
        ([-(1 << 63) - 1], "more than 64 bits"),
        ([math.nan], "JSON has no nan"),
        ([math.inf], "JSON has no inf"),
        (LOOP, "nested too deeply"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_a_value_that_would_not_come_back_is_refused(value: Any, says: str) -> None:
    with pytest.raises(CodecError, match=says):
        registry.encode_value(value)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ({}, "cannot be a key"),
        ([], "cannot be a key"),
        ({1}, "cannot be a key"),
        (math.nan, "NaN"),
        (Text("a"), "key"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused(key: Any, says: str) -> None:
    with pytest.raises(CodecError, match=says):
        registry.encode_key(key)
    with pytest.raises(CodecError, match=says):
        registry.encode_puts([("a", 1), (key, 1)])


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_how_deep_a_value_may_be_does_not_depend_on_who_stores_it(tmp_path: Path) -> None:
    def deeper(stack: int) -> Any:
        return deeper(stack - 1) if stack else registry.decode(*registry.encode_value(nested(400)))

    assert deeper(300) == nested(400)
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        jobs["a"] = nested(500)
        with pytest.raises(CodecError, match="too deeply"):
            jobs["a"] = nested(501)
        assert jobs.replace("a", nested(500), {"x": 1, "y": nested(499)})
        assert jobs.replace("a", {"y": nested(499), "x": 1}, 1)


def test_a_condition_that_cannot_be_judged_fails_only_its_own_caller(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        jobs["a"] = {"x": 1}
        jobs._state.tables["str"][b"a"].value = b"{"
        with pytest.raises(CodecError, match="are no 'json'"):
            jobs.replace("a", {"x": 1}, 2)
        jobs["b"] = 1
        assert jobs["b"] == 1


def test_minus_zero_is_the_key_zero_but_a_value_of_its_own() -> None:
    assert registry.encode_key(-0.0) == registry.encode_key(0.0)
    assert math.copysign(1, registry.decode(*registry.encode_value(-0.0))) == -1


def test_many_puts_are_encoded_as_single_ones() -> None:
    pairs = [("a", 1), (1, "a"), (1, {"b": 2}), (2.5, None), (-0.0, True), (True, b"x")]
    found = [(e.key, e.key_class, e.value, e.value_class) for e in registry.encode_puts(pairs)]
    assert found == [(*registry.encode_key(key), *registry.encode_value(value)) for key, value in pairs]


def test_records_are_stored_by_registering_them() -> None:
    codecs = Codecs()
    codecs.register(Job, "job")
    codecs.register(Stage, "stage@2")
    for value, name in ((Job("a", 3), "job"), (Stage(1, ["x"]), "stage@2")):
        data, stored = codecs.encode_value(value)
        assert stored == name
        assert codecs.decode(data, stored) == value
    assert registry.by_name.keys() != codecs.by_name.keys(), "a registry of one's own is apart from the store's"
    with pytest.raises(CodecError, match="cannot be a key"):
        codecs.encode_key(Job("a"))


def test_a_record_that_would_come_back_as_something_else_is_refused() -> None:
    codecs = Codecs()
    codecs.register(Pair, "pair")
    with pytest.raises(CodecError, match="would not come back equal"):
        codecs.encode_value(Pair(((1, 2),)))


def test_an_old_shape_stays_readable() -> None:
    codecs = Codecs()
    codecs.register(Job, "job@2")
    codecs.register_old("job", lambda data: Job(data.decode()))
    assert codecs.decode(b"old", "job") == Job("old")
    assert codecs.encode_value(Job("new"))[1] == "job@2"


def test_a_type_may_be_a_key_if_it_says_so() -> None:
    codecs = Codecs()
    codecs.register(
        complex, "complex", encode=lambda z: repr(z).encode(), decode=lambda data: complex(data.decode()), keys=True
    )
    assert codecs.decode(*codecs.encode_key(1 + 2j)) == 1 + 2j


def test_a_wrong_registration_is_refused() -> None:
    codecs = Codecs()
    with pytest.raises(ConfigError, match="taken"):
        codecs.register(Job, "json")
    for name in ("", "Job", "job@0", "a b", "job:x", "../x"):
        with pytest.raises(ConfigError, match="no codec name"):
            codecs.register(Job, name)
    with pytest.raises(ConfigError, match="neither a dataclass nor"):
        codecs.register(set, "set")
    with pytest.raises(ConfigError, match="both encode and decode"):
        codecs.register(Job, "job", encode=lambda job: b"")
    assert Job not in codecs.by_type


@pytest.mark.parametrize(
    ("name", "data"),
    [("int", b""), ("int", b"\x82\x01"), ("int", b"\x80"), ("float", b"\x01"), ("bool", b"\x02"), ("none", b"x"),
     ("str", b"\xff"), ("json", b"{")],
)  # fmt: skip
def test_bytes_that_a_codec_did_not_write_are_a_codec_error(name: str, data: bytes) -> None:
    with pytest.raises(CodecError):
        registry.decode(data, name)


def test_an_entry_of_an_unknown_codec_is_kept_and_shown_with_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "by_type", dict(registry.by_type))
    monkeypatch.setattr(registry, "by_name", dict(registry.by_name))
    kvwal.codecs.register(Job, "job")
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs")["a"] = Job("x", 1)
        store.map("jobs")["b"] = 2
    registry.by_name.pop("job")
    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        entry = jobs.entry("a")
        assert entry is not None
        assert (entry.value, entry.value_class) == (b'{"name":"x","tries":1}', "job")
        assert list(jobs) == ["a", "b"]
        assert jobs["b"] == 2
        with pytest.raises(CodecError, match="'job'"):
            jobs["a"]


@pytest.mark.parametrize("made", ["text", None, 1, [b"bytes"]])
def test_what_a_codec_of_the_caller_makes_is_bytes(tmp_path: Path, made: Any) -> None:
    """Text in a block would be found when the log is opened again: then nothing behind it could be read."""
    codecs = Codecs()
    codecs.register(Job, "job", encode=lambda job: made, decode=lambda data: data, keys=True)
    with pytest.raises(CodecError, match=r"'job' encodes to .*, and must encode to bytes"):
        codecs.encode_value(Job("x"))
    with pytest.raises(CodecError, match="must encode to bytes"):
        codecs.encode_key(Job("x"))
    with pytest.raises(CodecError, match="must encode to bytes"):
        codecs.encode_puts([("a", Job("x"))])


def test_a_buffer_that_a_codec_goes_on_using_is_copied() -> None:
    codecs, buffer = Codecs(), bytearray(b"as given")
    codecs.register(Job, "job", encode=lambda job: buffer, decode=bytes)
    data, _ = codecs.encode_value(Job("x"))
    buffer.clear()
    assert data == b"as given"
