"""Keys and values come back from the text that a read shows of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.codecs import registry
from kvwal.errors import CodecError
from kvwal.spark.sink.texts import key_of_text, value_of_bytes, value_of_text
from kvwal.sql.text import json_text, label

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.one_of(st.none(), st.booleans(), LONG, FINITE, st.text())
KEYS = st.one_of(SCALARS, st.integers(), st.binary().filter(lambda data: not data.startswith(b"0x")))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@given(KEYS)
def test_a_key_comes_back_from_its_text_and_class(key: Any) -> None:
    data, key_class = registry.encode_key(key)
    assert key_of_text(label(data, key_class), key_class) == (data, key_class)


@given(VALUES)
def test_a_value_comes_back_from_its_text_with_and_without_its_class(value: Any) -> None:
    data, value_class = registry.encode_value(value)
    text = json_text(data, value_class)
    assert text is not None
    assert value_of_text(text, value_class) == value_of_text(text, None) == (data, value_class)
    assert value_of_bytes(data, value_class) == (data, value_class)


@pytest.mark.parametrize(
    ("text", "value_class", "sentence"),
    [
        ("{", None, "no JSON"),
        ("{", "json", "no JSON"),
        ("plain", "str", "no JSON"),
        ("5", "str", "is JSON of the class 'int', and its value_class is 'str'"),
        ("1.5", "int", "class 'float'"),
        ('"x"', "bytes", "column of type BINARY"),
        ("{}", "job", "'job' is not registered"),
        ("1", "int64", "only a node"),
        ("[" * 10_000, None, "no JSON"),
    ],
)
def test_a_text_that_is_no_value_of_its_class_is_refused(text: str, value_class: str | None, sentence: str) -> None:
    with pytest.raises(CodecError, match=sentence):
        value_of_text(text, value_class)


@pytest.mark.parametrize(
    ("text", "key_class"),
    [
        ("1.5", "int"), ("07", "int"), ("1_0", "int"), ("x", "float"), ("inf", "float"), ("nan", "float"), ("1" * 400, "float"),
        ("1", "bool"), ("a", "json"), ("a", "dropped:none"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_key_of_its_class_is_refused(text: str, key_class: str) -> None:
    with pytest.raises(CodecError):
        key_of_text(text, key_class)


def test_bytes_keep_what_looks_like_hexadecimal_and_is_text() -> None:
    assert key_of_text("0x41", "bytes") == (b"0x41", "bytes")
    assert key_of_text("0xff", "bytes") == (b"\xff", "bytes")
    assert key_of_text("0xzz", "bytes") == (b"0xzz", "bytes")
    assert value_of_text("5", "float") == registry.encode_value(5.0)
