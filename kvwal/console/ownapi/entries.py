"""The location as a whole (its businesses, figures and health), and the keys of its maps, now or at a time."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from starlette.responses import Response

from kvwal.codecs import registry
from kvwal.console.access import is_of_another_site
from kvwal.console.bodies import Refused
from kvwal.console.figures.renewal import renew
from kvwal.console.figures.told import finding, told, worst
from kvwal.console.ownapi import shapes
from kvwal.console.ownapi.operations import Asked
from kvwal.console.parts import Console
from kvwal.console.shared_reader import View
from kvwal.entry import DataEntry
from kvwal.errors import CodecError
from kvwal.location.entry_text import as_json
from kvwal.location.moments import MomentReader
from kvwal.location.readers import LocationReader
from kvwal.sql.text import encode_json
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.structures.map.state import after_prefix
from kvwal.structures.map.view import KeyBounds

Identity = tuple[str, bytes]


def json_answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer of JSON. Infinity is its name."""
    return Response(encode_json(content), status, headers, "application/json")


def reader_at(view: View, at: int | None) -> LocationReader:
    """The location now, or as it was at a timestamp."""
    return view.reader if at is None else MomentReader(view.reader, at)


def entry_json(entry: DataEntry) -> shapes.Entry:
    """An entry as an answer has it."""
    fields = as_json(entry)
    if not entry.timestamp:  # the memory of a cluster does not know it
        del fields["timestamp"], fields["time"]
    return cast("shapes.Entry", fields)


def etag(timestamp: int) -> str:
    """The tag of an entry: what `If-Match` takes."""
    return f'"{timestamp}"'


def identity_of(key: Any) -> Identity:
    """Class and bytes of a key. Raises `Refused` for one that cannot be a key."""
    try:
        data, key_class = registry.encode_key(key)
    except CodecError as error:
        raise Refused(400, f"{error.what} {error.hint}".strip()) from error
    return key_class, data


def read_page(
    business: BusinessReader, bounds: KeyBounds, after: Identity | None, limit: int
) -> tuple[list[DataEntry], Identity | None]:
    """Entries of one page, and the identity after which the next one begins; None if there is none."""
    found = business.page(bounds, after, limit + 1)
    last = found[limit - 1] if len(found) > limit else None
    return found[:limit], None if last is None else (last.key_class, last.key)


def prefix_bounds(prefix: str | None) -> KeyBounds:
    """The keys of all classes, or the text keys that begin with a prefix."""
    if not prefix:
        return KeyBounds()
    begins = prefix.encode()
    return KeyBounds("str", begins, after_prefix(begins))


def cursor_text(identity: Identity | None) -> str | None:
    """The cursor of a page: the class and the bytes of the last key before it."""
    if identity is None:
        return None
    return f"{identity[0]}:{base64.urlsafe_b64encode(identity[1]).decode().rstrip('=')}"


def parse_cursor(text: str | None) -> Identity | None:
    """The identity of a cursor. Raises `Refused`."""
    if text is None:
        return None
    key_class, colon, data = text.rpartition(":")
    try:
        if not colon or not key_class:
            raise ValueError("it has no class")
        return key_class, base64.b64decode(data + "=" * (-len(data) % 4), b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise Refused(400, f"{text[:80]!r} is no cursor: give the `next` of the page before.") from None


async def businesses(console: Console, asked: Asked) -> Response:
    """The businesses of the location."""

    def read(view: View) -> list[shapes.Business]:
        return [shapes.Business(name=name, bytes=size) for name, size in view.reader.sizes().items()]

    return json_answer(shapes.Businesses(businesses=await console.reads.ask(read)))


async def health(console: Console, asked: Asked) -> Response:
    """What `kvwal doctor` says of the location."""
    examinations = console.figures.examinations
    examination = await console.workers.run(examinations.now if _wants_now(asked) else examinations.last)
    renew(console)
    return json_answer(
        shapes.Health(
            location=console.location,
            status=worst(examination.findings),
            findings=[finding(each) for each in examination.findings],
            examined_seconds_ago=round(examinations.age(examination), 1),
        )
    )


async def operations(console: Console, asked: Asked) -> Response:
    """The figures of nodes, logs and archive, with what `kvwal doctor` says."""
    if _wants_now(asked):
        await console.workers.run(console.figures.examinations.now)
    looked = await console.reads.ask(console.figures.look)
    renew(console)
    return json_answer(told(console.location, looked))


def _wants_now(asked: Asked) -> bool:
    """Whether to examine now. A link on a page of another site starts no work."""
    return asked.flag("now") and not is_of_another_site(asked.request)


async def stats(console: Console, asked: Asked) -> Response:
    """What `kvwal stats` says of the location."""
    return json_answer(await console.reads.ask(lambda view: view.reader.stats()))


async def keys(console: Console, asked: Asked) -> Response:
    """A page of the keys of a map."""
    business, limit, at = asked.part("business"), asked.count("limit"), asked.moment("at")
    bounds, after = prefix_bounds(asked.text("prefix")), parse_cursor(asked.text("cursor"))

    def read(view: View) -> shapes.Page:
        found, last = read_page(reader_at(view, at).read_business(business), bounds, after, limit)
        return shapes.Page(entries=[entry_json(entry) for entry in found], next=cursor_text(last))

    return json_answer(await console.reads.ask(read))


async def key(console: Console, asked: Asked) -> Response:
    """One key."""
    business, at, identity = asked.part("business"), asked.moment("at"), identity_of(asked.key())

    def read(view: View) -> DataEntry | None:
        return reader_at(view, at).read_business(business, logged=True).find(*identity)

    entry = await console.reads.ask(read)
    if entry is None:
        raise Refused(404, f"{business} has no such key{'' if at is None else ' at that time'}.")
    tag = etag(entry.timestamp)
    if asked.header("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return json_answer(entry_json(entry), headers={"ETag": tag})


async def history(console: Console, asked: Asked) -> Response:
    """The changes of one key."""
    business, limit, identity = asked.part("business"), asked.count("limit"), identity_of(asked.key())

    def read(view: View) -> list[DataEntry]:
        return view.reader.read_business(business).history(*identity)

    found = await console.reads.ask(read)
    if not found:
        raise Refused(404, f"{business} never had such a key.")
    return json_answer(shapes.History(entries=[entry_json(entry) for entry in found[:limit]]))
