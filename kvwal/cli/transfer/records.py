"""Records as entries: which column is the key, and what becomes of the others.

A record is a row of a file, its values by the names of its columns. With `--key COLUMN` the value of its entry is an object of
the other columns. Without it, a record with the columns `key` and `value` is that key and that value, as `kvwal scan --json`
prints them. A column `key_class` beside them says of which class a key is that stands there as text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from kvwal.cli import show
from kvwal.cli.transfer.puts import BadRow
from kvwal.codecs import registry
from kvwal.entry import Entry
from kvwal.errors import CodecError, ConfigError
from kvwal.key_text import KEY_CLASSES, TEXT_CLASSES, from_plain

PAIR = ("key", "value")
_OF_THE_PAIR = ("key_encoding", "value_encoding", "key_class")
_MOST_NAMES = 20


class Records:
    """The way from the records of one file to entries. `key` is the column that `--key` names, if it was given."""

    def __init__(self, key: str | None) -> None:
        self.key = key
        self._said = False

    def check(self, columns: Iterable[str]) -> None:
        """Raise `ConfigError` unless records with these columns have a key; say on stderr which of the columns are left out."""
        names = list(columns)
        if self.key is None and not set(PAIR) <= set(names):
            raise ConfigError(
                f"has no columns key and value, but {_listed(names)}.", hint="Name the key: --key COLUMN."
            )
        if self.key is not None and self.key not in names:
            raise ConfigError(f"has no column {self.key!r}, but {_listed(names)}.", hint="Name one of them with --key.")
        left_out = [name for name in names if name not in (*PAIR, *_OF_THE_PAIR)]
        if self.key is None and left_out and not self._said:
            self._said = True
            show.note(f"kvwal: only key and value are put, without {_listed(left_out)}. --key COLUMN puts all columns.")

    def entry(self, record: Mapping[str, Any]) -> Entry:
        """The entry of a checked record. A value is stored as its type says. Raises `CodecError`."""
        if self.key is None:
            key, value = _key(record), _content(record, "value")
        else:
            key = record[self.key]
            if key is None:
                raise CodecError(f"has no key: its {self.key} is null.")
            value = {name: content for name, content in record.items() if name != self.key}
        try:
            data, key_class = registry.encode_key(key)
            content, value_class = registry.encode_value(value)
        except CodecError as error:
            raise CodecError(f"is no entry: {error.what}", hint=error.hint) from error
        return Entry(data, key_class, content, value_class, False, 0)


def bad_row(unit: str, number: int, error: ConfigError | CodecError) -> BadRow:
    """The error of one line or row. The sentence of `error` goes on after its number."""
    return BadRow(f"{unit} {number:,} {error.what}", hint=error.hint)


def _key(record: Mapping[str, Any]) -> Any:
    """The key of a record of key and value, of its class if the record says one."""
    content, key_class = _content(record, "key"), record.get("key_class")
    if not key_class:
        return content
    if key_class == "int64":  # an int that a node of a cluster wrote
        key_class = "int"
    if key_class not in KEY_CLASSES:
        raise CodecError(
            f"is no entry: its key_class {key_class!r:.80} is no class of keys.",
            hint=f"There are {', '.join(KEY_CLASSES)}.",
        )
    try:
        key = from_plain(content, key_class) if isinstance(content, str) or key_class in TEXT_CLASSES else content
        _, found = registry.encode_key(key)
    except CodecError as error:
        raise CodecError(f"is no entry: {error.what}", hint=error.hint) from error
    if found != key_class:
        raise CodecError(f"is no entry: its key {content!r:.80} is no {key_class}.")
    return key


def _content(record: Mapping[str, Any], name: str) -> Any:
    """The key or the value of a record of both: base64 if the record says so."""
    content, encoding = record[name], record.get(f"{name}_encoding")
    if encoding is None:
        return content
    try:
        if encoding != "base64":
            raise ValueError(f"{name}_encoding is {encoding!r}")
        return base64.b64decode(content, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise CodecError(f"has a {name} that is no base64: {error}.") from error


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES:,} more" if names[_MOST_NAMES:] else "")
    return f"the column{'s' * (len(names) != 1)} {shown}" if names else "none"
