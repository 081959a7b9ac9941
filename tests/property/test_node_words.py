"""Serialized bytes become a class and bytes of the log and come back bit for bit; what has a codec reads as what it is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvwal.codecs import registry
from tests.support.cluster.nodes import needs_hazelcast
from tests.support.java.wire import Glue, glue

pytestmark = needs_hazelcast
BOOLEAN, INTEGER, LONG, DOUBLE, STRING, BYTES, BIG_INTEGER, JSON, FOREIGN = -4, -7, -8, -10, -11, -12, -26, -130, 27510
TYPES = [BOOLEAN, INTEGER, LONG, DOUBLE, STRING, BYTES, BIG_INTEGER, JSON, FOREIGN, -1, -2, -55, -100, -120, 0, 5]


@pytest.fixture(scope="module")
def java() -> Iterator[Glue]:
    with glue() as process:
        yield process


def serialized(kind: int, payload: bytes, partition_hash: int = 0) -> bytes:
    return struct.pack(">ii", partition_hash, kind) + payload


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@given(st.sampled_from(TYPES), st.binary(max_size=40), st.booleans(), st.sampled_from([0, 0, 0, 7, -1]))
@example(FOREIGN, b"\x03strabc", False, 0)
@example(FOREIGN, b"\x05job@2abc", False, 0)
@example(FOREIGN, b"\x04none", False, 0)
@example(FOREIGN, b"\x02hz" + bytes(8), False, 0)
@example(FOREIGN, b"\xff", False, 0)
@example(BIG_INTEGER, b"\x00" * 9 + b"\x01", True, 0)
@example(STRING, b"\xed\xa0\x80", True, 0)
@example(JSON, b'{"a": 1} {"b": 2}', True, 0)
def test_any_bytes_come_back(java: Glue, kind: int, payload: bytes, with_size: bool, partition_hash: int) -> None:
    whole = serialized(kind, sized(payload) if with_size else payload, partition_hash)
    word = java.word(whole)
    assert word.back == whole
    if partition_hash:
        assert word.name == "hz"
    if word.name in registry.by_name:
        registry.decode(word.data, word.name)


def check(java: Glue, whole: bytes, name: str, value: Any) -> None:
    word = java.word(whole)
    assert (word.name, word.back) == (name, whole)
    assert registry.decode(word.data, name) == value
    if name in ("str", "int", "float", "bool", "bytes"):
        assert registry.encode_value(value) == (word.data, name)


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_integer_is_an_int(java: Glue, number: int) -> None:
    check(java, serialized(INTEGER, struct.pack(">i", number)), "int", number)


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**33), 2**33))
def test_a_long_is_an_int_where_no_integer_holds_it(java: Glue, number: int) -> None:
    fits = -(2**31) <= number < 2**31
    check(java, serialized(LONG, struct.pack(">q", number)), "int64" if fits else "int", number)


@given(st.integers(-(2**1000), 2**1000) | st.integers(-(2**66), 2**66))
def test_a_big_integer_is_an_int_where_no_long_holds_it(java: Glue, number: int) -> None:
    data = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    whole = serialized(BIG_INTEGER, sized(data))
    if -(2**63) <= number < 2**63:
        assert java.word(whole).name == "hz"
    else:
        check(java, whole, "int", number)


@given(st.floats(allow_nan=False))
def test_a_double_is_a_float(java: Glue, number: float) -> None:
    check(java, serialized(DOUBLE, struct.pack(">d", number)), "float", number)


@given(st.text(), st.binary(), st.booleans())
def test_text_bytes_and_truth_are_what_they_are(java: Glue, text: str, data: bytes, truth: bool) -> None:
    check(java, serialized(STRING, sized(text.encode())), "str", text)
    check(java, serialized(BYTES, sized(data)), "bytes", data)
    check(java, serialized(BOOLEAN, bytes([truth])), "bool", truth)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_json_is_json(java: Glue, value: Any) -> None:
    check(java, serialized(JSON, sized(msgspec.json.encode(value))), "json", value)


@pytest.mark.parametrize("text", ["", " ", "{", "nothing", "1 2", '{"a": 1,}', "[1]x", "NaN", "'a'", "01", '"\x01"'])
def test_what_is_no_json_is_kept_as_it_is(java: Glue, text: str) -> None:
    assert java.word(serialized(JSON, sized(text.encode()))).name == "hz"


def test_no_client_can_write_what_only_the_node_may(java: Glue) -> None:
    for name in (b"dropped:none", b"schema:int64", b"hz", b"str"):
        assert java.word(serialized(FOREIGN, bytes([len(name)]) + name)).name == "hz"
