"""What a client asks of any member, and what that member answers from logs and archive: the past of a map.

An answer is a block of entries, as the log has them, with the timestamps and ends that memory does not know.
"""

from __future__ import annotations

import msgspec


class Question(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Of a map: with a `key_class` every change of that key, newest first; without, what was there at `timestamp`."""

    map: str
    key_class: str = ""
    key: bytes = b""
    timestamp: int = 0


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Question).decode
