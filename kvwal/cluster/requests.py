"""Requests for the history of a map: from a client to any member, and from that member to the others.

The answer to a client is a block of entries, as the log has them, with the timestamps and expiry times that memory does not have.
"""

from __future__ import annotations

import msgspec


class Question(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Of a map: with a `key_class` every change of that key, newest first; without, what was there at `timestamp`."""

    map: str
    key_class: str = ""
    key: bytes = b""
    timestamp: int = 0


class TailQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """Of a member's log of a business: with a `key_class` the changes of that key, else all up to `timestamp`. Only those
    count that the archive was not seen to hold. The answer is a stream of Arrow, with the columns of the archive.
    """

    business: str
    key_class: str = ""
    key: bytes = b""
    timestamp: int = 0


class CopyQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """Of a member's logs: what they hold, made into an archive beside them, whose objects the answer names. The answer to the
    same `number` is the same."""

    number: int


class PartQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=True):
    """Of an object of such an archive: so many bytes from `offset` on."""

    key: str
    offset: int
    size: int


class Copied(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a `CopyQuestion`: the objects with their sizes, and by business the greatest timestamp of a delete that its
    log may lack; 0 where it lacks none."""

    objects: list[tuple[str, int]]
    left_out: dict[str, int]


PeerQuestion = TailQuestion | CopyQuestion | PartQuestion
encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Question).decode
decode_peer = msgspec.msgpack.Decoder(PeerQuestion).decode
decode_copied = msgspec.msgpack.Decoder(Copied).decode
