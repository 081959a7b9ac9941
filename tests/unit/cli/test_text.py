"""Keys and values as the command line reads and prints them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from kvwal.cli.text import as_json, label, line, parse_key, parse_moment, parse_time, parse_value, shown
from kvwal.codecs import registry
from kvwal.entry import DataEntry
from kvwal.errors import CodecError, ConfigError
from kvwal.hlc import to_text, to_timestamp


def entry(key: Any, value: Any, timestamp: int = 1 << 16, expires: int = 0) -> DataEntry:
    data, key_class = registry.encode_key(key)
    content, value_class = registry.encode_value(value)
    return DataEntry(data, key_class, content, value_class, False, timestamp, expires)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ('{"a": [1]}', {"a": [1]}),
        ('"x"', "x"),
        ("x", "x"),
        ("{a", "{a"),
    ],
)
def test_a_value_is_json_where_it_is_json_else_text(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "key_class", "key"),
    [
        ("7", "str", "7"),
        ("7", "int", 7),
        ("7", "float", 7.0),
        ("true", "bool", True),
        ("null", "none", None),
        ("é", "bytes", "é".encode()),
    ],
)
def test_a_key_is_text_unless_its_class_says_otherwise(text: str, key_class: str, key: object) -> None:
    assert parse_key(text, key_class) == key
    assert type(parse_key(text, key_class)) is type(key)


def test_a_key_that_is_not_of_its_class_is_refused() -> None:
    with pytest.raises(CodecError, match="'x' is no int"):
        parse_key("x", "int")
    with pytest.raises(CodecError, match="'true' is no int"):
        parse_key("true", "int")
    for number in ("07", "+7", "1_0", "7.0"):
        with pytest.raises(CodecError, match="is no int"):
            parse_key(number, "int")
    with pytest.raises(CodecError, match="is no float"):
        parse_key("1" * 400, "float")
    with pytest.raises(ConfigError, match="--key-class json"):
        parse_key("x", "json")


@pytest.mark.parametrize(
    ("value", "text"),
    [("a b", b"a b"), (b"\x00\xff", b"\x00\xff"), ({"a": 1}, b'{"a":1}'), (1, b"1"), (None, b"null"), (True, b"true")],
)
def test_get_prints_text_and_bytes_as_they_are_and_the_rest_as_json(value: object, text: bytes) -> None:
    found = entry("k", value)
    assert shown(found.value, found.value_class) == text


def test_a_table_shows_bytes_that_are_no_text_as_hex() -> None:
    assert label(b"\x00\xff", "bytes") == "0x00ff"


def test_what_only_a_program_can_decode_is_shown_as_json_or_as_bytes() -> None:
    assert shown(b'{"id":7}', "order@2") == b'{"id":7}'
    assert shown(b"\xff\x00", "order@2") == b"\xff\x00"


def test_the_structure_in_a_class_does_not_hide_the_codec() -> None:
    assert label(b"job-1", "running:str") == "job-1"


def test_an_entry_as_json_keeps_what_a_number_would_lose() -> None:
    timestamp = to_timestamp(datetime.fromisoformat("2025-01-31T12:00:00+00:00"))
    found = json.loads(line(as_json(entry("k", b"\xff", timestamp, expires=1_738_324_800_000))))
    assert found["timestamp"] == str(timestamp)
    assert found["time"].startswith("2025-01-31 12:00:00.000Z")
    assert found["expires"] == "2025-01-31 12:00:00.000Z"
    assert (found["value"], found["value_encoding"]) == ("/w==", "base64")


def test_a_delete_as_json_has_no_value() -> None:
    found = as_json(DataEntry(b"k", "str", b"", "", True, 1 << 16))
    assert (found["deleted"], found["value"]) == (True, None)


def test_a_time_is_a_date_or_a_timestamp() -> None:
    assert parse_time("1234567890123456789") == 1234567890123456789
    assert parse_time("2025-01-31T12:00:00+00:00") == to_timestamp(datetime.fromisoformat("2025-01-31T12:00:00+00:00"))
    with pytest.raises(ConfigError, match="'soon' is no time"):
        parse_time("soon")
    timestamp = to_timestamp(datetime.fromisoformat("2025-01-31T12:00:00.123+00:00"))
    assert parse_time(to_text(timestamp)) == timestamp
    assert parse_time(to_text(timestamp - 1)) == timestamp - 1
    for typed in ("2025-01-31 12:00:00.123Z+65536", "2025-01-31 12:00:00.123+1", "Z+1"):
        with pytest.raises(ConfigError):
            parse_time(typed)


@pytest.mark.parametrize("typed", ["1999-12-31", "9999w", "946684800000000"])
def test_a_moment_before_any_store_is_refused(typed: str) -> None:
    with pytest.raises(ConfigError):
        parse_moment(typed)
    assert parse_moment("1h") < parse_moment("0s")
