"""Writes by key: PUT and DELETE, on the condition of `If-Match` and `If-None-Match`."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from kvwal.codecs import registry
from kvwal.console.bodies import Refused, read_limited
from kvwal.console.ownapi import shapes
from kvwal.console.ownapi.entries import etag, identity_of, json_answer
from kvwal.console.ownapi.operations import Asked
from kvwal.console.parts import Console, Writes
from kvwal.console.shared_reader import View
from kvwal.entry import DataEntry
from kvwal.errors import CodecError
from kvwal.hlc import to_text
from kvwal.structures.map.map import Map

MOST_VALUE = 4 << 20
"""Bytes of a value that is put. Larger ones are contents: `kvwal content put`."""
_READ_ONLY = "This console only reads: start it with --allow-writes to have it change keys."
_DELETE, _MISSING = object(), object()
_JSON, _TEXT, _BYTES = "application/json", "text/plain", "application/octet-stream"
_CHANGED = "The key has another timestamp than If-Match says, or is gone: read it again. Nothing was written."
_THERE = "The key is there already. Nothing was written."


async def put(console: Console, asked: Asked) -> Response:
    """Put a value."""
    writes = _writes(console)
    return await _changed(console, writes, asked, await _value(asked.request))


async def delete(console: Console, asked: Asked) -> Response:
    """Delete a key."""
    return await _changed(console, _writes(console), asked, _DELETE)


def _writes(console: Console) -> Writes:
    if console.writes is None:
        raise Refused(403, _READ_ONLY)
    return console.writes


async def _value(request: Request) -> Any:
    """The value in the body, of the class that its media type says."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (_JSON, _TEXT, _BYTES):
        raise Refused(415, f"Send the value as {_JSON}, {_TEXT} or {_BYTES}, and say so in Content-Type.")
    body = await read_limited(request, MOST_VALUE)
    try:
        if kind == _JSON:
            return msgspec.json.decode(body)
        return body.decode() if kind == _TEXT else body
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"The body is no {'JSON' if kind == _JSON else 'UTF-8 text'}: {error}.") from error


async def _changed(console: Console, writes: Writes, asked: Asked, value: Any) -> Response:
    business, key = asked.part("business"), asked.key()
    identity = identity_of(key)
    wanted, none_wanted = asked.header("if-match"), asked.header("if-none-match")
    if none_wanted is not None and (none_wanted != "*" or value is _DELETE or wanted is not None):
        raise Refused(400, "If-None-Match of a write is `*`, of a PUT, without If-Match.")

    def read() -> DataEntry | None:
        with console.reads.view() as view:
            return _read(view, business, identity)

    def change() -> shapes.Written:
        if value is _DELETE and business not in writes.store.businesses():
            raise Refused(404, f"There is no business {business!r}.")
        target = writes.store.map(business)
        if wanted is None and none_wanted is None:
            return _written(target.delete(key) if value is _DELETE else target.put(key, value))
        own = target.get(key, _MISSING)  # before the look at the timestamp: a change after it is one of `own`
        _check(read(), wanted)
        if not _change_if(target, key, own, value):
            raise Refused(412, _CHANGED if none_wanted is None else _THERE)
        return _written(_timestamp_of(read(), value))

    try:
        written = await console.workers.run(change)
    except CodecError as error:
        raise Refused(400, f"{error.what} {error.hint}".strip()) from error
    stamp = written["timestamp"]
    return json_answer(written, headers={} if stamp is None else {"ETag": etag(int(stamp))})


def _read(view: View, business: str, identity: tuple[str, bytes]) -> DataEntry | None:
    """The entry that a condition is about: in a folder the latest of all nodes."""
    if business not in view.reader.businesses():
        return None
    return view.reader.read_business(business, logged=True).find(*identity)


def _check(there: DataEntry | None, wanted: str | None) -> None:
    """Raise `Refused` unless the entry is the wanted one; without `wanted`, unless there is none."""
    if wanted is None:
        if there is not None:
            raise Refused(412, _THERE)
        return
    tags = [each.strip() for each in wanted.split(",")]
    if there is None or not (tags == ["*"] or etag(there.timestamp) in tags):
        raise Refused(412, _CHANGED)


def _change_if(target: Map, key: Any, own: Any, value: Any) -> bool:
    """Change the key in the order of the log, only if the map still has `own`. A key may be one of another node of a folder."""
    if own is _MISSING:
        if value is _DELETE:
            target.delete(key)
            return True
        return target.put_if_absent(key, value)
    return target.remove(key, own) if value is _DELETE else target.replace(key, own, value)


def _timestamp_of(there: DataEntry | None, value: Any) -> int | None:
    """The timestamp of the value that was put; None after a delete, and if another change followed at once."""
    if there is None or value is _DELETE:
        return None
    return there.timestamp if (there.value, there.value_class) == registry.encode_value(value) else None


def _written(timestamp: int | None) -> shapes.Written:
    if timestamp is None:
        return shapes.Written(timestamp=None, time=None)
    return shapes.Written(timestamp=str(timestamp), time=to_text(timestamp))
