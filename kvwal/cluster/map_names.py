"""Names: which map is which business, and which maps have a log at all."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from urllib.parse import unquote_to_bytes

from kvwal.config import Flush
from kvwal.errors import ConfigError, InvalidName
from kvwal_archive.layout import check_name

VOLATILE = "tmp."
"""Maps whose names begin so are memory only, by intent."""
INTERNAL = "__"
"""Hazelcast's own maps begin so; they have no log."""
EMPTY = "%"
"""The business of the map with the empty name: no other name becomes a lone percent sign."""

_PLAIN = re.compile(rb"[A-Za-z0-9._@+-]")
_BEGINS = re.compile(rb"[A-Za-z0-9@+]")


def to_business(name: str) -> str:
    """The business of a map: its name. Bytes that may not stand in a path become `%` and two digits.

    `InvalidName` if that becomes too long for a folder.
    """
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise InvalidName(f"The map name {name!r} is no text.", hint="Choose another name.") from None
    parts = [
        chr(byte) if (_PLAIN if index else _BEGINS).match(bytes([byte])) else f"%{byte:02X}"
        for index, byte in enumerate(data)
    ]
    return check_name("map", "".join(parts) or EMPTY)


def to_map(business: str) -> str:
    """The map of a business. `ConfigError` if the business is of no map."""
    name = "" if business == EMPTY else unquote_to_bytes(business).decode(errors="replace")
    if to_business(name) != business:
        raise ConfigError(
            f"the business {business!r} is no map of a cluster: its name would be {to_business(name)!r}.",
            hint="Restore it into an embedded store, or under another name.",
        )
    return name


def has_log(name: str) -> bool:
    """Whether the entries of this map are in a log."""
    return not name.startswith((VOLATILE, INTERNAL))


def flush_for(name: str, patterns: dict[str, Flush], otherwise: Flush) -> Flush:
    """The flush policy of a map: that of the first pattern that fits (with * and ?, as for file names), or `otherwise`."""
    for pattern, flush in patterns.items():
        if fnmatchcase(name, pattern):
            return flush
    return otherwise
