"""Bodies and files of events: JSON parsed, each event checked, and its secrets replaced, before anything of it is stored."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import zstandard

from kvwal.lineage.openlineage.runs import LineageRecord, record_of, time_of
from kvwal.lineage.openlineage.schema import InvalidEvent, check_event
from kvwal.lineage.openlineage.secrets import without_secrets

MAX_BODY = 16 << 20
"""Bytes of a body, once it is unpacked."""
PACKED = 256 << 10
"""Bytes of JSON from which on an event is stored compressed."""
_GZIP = 16 + zlib.MAX_WBITS


class TooLong(Exception):
    """A body is longer than `MAX_BODY` once it is unpacked."""


class NotGzip(Exception):
    """A body is no gzip."""


class CheckedEvent(NamedTuple):
    """A valid event without secrets: its key, its value as it is stored, and what it tells."""

    key: str
    value: Any
    told: LineageRecord
    size: int


def parsed(body: bytes) -> Any:
    """The JSON of a body. Raises `InvalidEvent` for a body that is no JSON."""
    try:
        return msgspec.json.decode(body)
    except RecursionError as error:
        raise InvalidEvent("$", "it is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidEvent("$", f"it is no JSON ({error})", "the body") from error


def checked(event: Any, at: str = "$") -> CheckedEvent:
    """The event, checked and without secrets. Raises `InvalidEvent`; `at` is the path of the event."""
    try:
        check_event(event, at)
        clean = without_secrets(event)
        data = msgspec.json.encode(clean, order="deterministic")
    except RecursionError as error:
        raise InvalidEvent(at, "it is nested too deeply") from error
    told = record_of(clean)
    digest = blake2b(data, digest_size=16).hexdigest()
    key = f"event/{told.subject}/{max(0, time_of(clean)):015d}-{digest}"
    value = {"kind": "event", "event": clean} if len(data) < PACKED else zstandard.ZstdCompressor().compress(data)
    return CheckedEvent(key, value, told, len(data) if len(data) < PACKED else len(value))


def checked_batch(body: Any) -> list[CheckedEvent]:
    """The events of a body: one, or a list of them. Raises `InvalidEvent` for the first that is not valid."""
    if isinstance(body, list):
        return [checked(event, f"$[{number}]") for number, event in enumerate(body)]
    return [checked(body)]


def unpacked(value: object) -> dict[str, Any]:
    """The event of a stored value. Raises `ValueError` for a value that is none."""
    if isinstance(value, bytes):
        size = zstandard.frame_content_size(value)
        if size > MAX_BODY:
            raise ValueError("a stored event is longer than any that is taken")
        value = {"event": msgspec.json.decode(zstandard.ZstdDecompressor().decompress(value))}
    event = value.get("event") if isinstance(value, dict) else None
    if not isinstance(event, dict):
        raise ValueError("a stored value is no event")
    return event


def gunzipped(pieces: Iterable[bytes]) -> bytes:
    """The bytes that gzip packed. Raises `TooLong` as soon as they are more than `MAX_BODY`, and `NotGzip`."""
    unpacker = zlib.decompressobj(_GZIP)
    whole = bytearray()
    try:
        for piece in pieces:
            whole += unpacker.decompress(piece, MAX_BODY + 1 - len(whole))
            if len(whole) > MAX_BODY:
                raise TooLong
        if not unpacker.eof or unpacker.unconsumed_tail:
            raise NotGzip
    except zlib.error as error:
        raise NotGzip from error
    return bytes(whole)
