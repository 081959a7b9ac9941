"""Entries and times as text and as JSON.

`kvwal get` loads this module, so it imports nothing that takes long to load.
"""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from kvwal.errors import ConfigError
from kvwal.key_text import KEY_CLASSES, from_plain
from kvwal.location.entry_text import as_json as as_json
from kvwal.location.entry_text import moment_text as moment_text
from kvwal.location.entry_text import parse_moment as parse_moment
from kvwal.location.entry_text import parse_time as parse_time
from kvwal.sql.text import decoded as decoded
from kvwal.sql.text import decoded_key as decoded_key
from kvwal.sql.text import encode_json
from kvwal.sql.text import key_label as key_label
from kvwal.sql.text import label as label
from kvwal.sql.text import shown as shown

_decode_json = msgspec.json.Decoder().decode

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Text for a terminal: control characters, line ends and marks of text direction are escaped."""
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)


def line(content: Any) -> bytes:
    """Content as one line of JSON, infinity as the text `Infinity`."""
    return encode_json(content)


def is_text(typed: str) -> bool:
    """Whether the typed text is UTF-8."""
    try:
        typed.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(what: str, typed: str) -> str:
    """The typed text. Raises `ConfigError` if it is not UTF-8."""
    if is_text(typed):
        return typed
    raise ConfigError(
        f"{what} {os.fsencode(typed)!r} is no UTF-8 text.",
        hint="Type text; a key of other bytes is one with --key-class bytes.",
    )


def parse_value(text: str) -> Any:
    """Value of the argument VALUE: JSON if the text is JSON, else the text, or its bytes if they are not UTF-8."""
    if not is_text(text):
        return os.fsencode(text)
    try:
        return _decode_json(text)
    except msgspec.DecodeError:
        return text


def parse_key(text: str, class_name: str) -> Any:
    """Key of the argument KEY: the text, or its value of the class that `--key-class` names."""
    if class_name not in KEY_CLASSES:
        raise ConfigError(
            f"--key-class {class_name} is no class of keys.", hint=f"Choose one of {', '.join(KEY_CLASSES)}."
        )
    return from_plain(check_text("the key", text) if class_name == "str" else text, class_name)
