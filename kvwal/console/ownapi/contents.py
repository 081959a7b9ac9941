"""Contents: their names, and their bytes, whole or a range of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from io import BufferedReader
from itertools import islice
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from kvwal.console.bodies import Refused
from kvwal.console.ownapi import shapes
from kvwal.console.ownapi.entries import json_answer
from kvwal.console.ownapi.operations import Asked
from kvwal.console.parts import Console
from kvwal.console.shared_reader import View
from kvwal.content.claim import Content
from kvwal.errors import InvalidName
from kvwal.hlc import to_text
from kvwal.store.contents.stored import StoredContents, names_of_stored

_PIECE = 256 << 10
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_SAFE = "default-src 'none'; sandbox"
"""Policy of the bytes of a content: a browser runs nothing of them."""


def stored(view: View, business: str, contents: str, at: int | None) -> StoredContents:
    """The contents of a business. Raises `Refused` for what is no name."""
    try:
        return StoredContents(view.reader.read_business(business), business, contents, at)
    except InvalidName as error:
        raise Refused(400, f"{error.what} {error.hint}".strip()) from error


def content_json(content: Content) -> shapes.Content:
    """A content as an answer has it."""
    return shapes.Content(
        name=content.name, bytes=content.length, sha256=content.sha256, attributes=content.attributes,
        timestamp=str(content.timestamp), time=to_text(content.timestamp),
    )  # fmt: skip


def page_of(found: StoredContents, prefix: str, after: str | None, limit: int) -> tuple[list[Content], str | None]:
    """Contents of one page, and the name after which the next one begins; None if there is none."""
    names = (each for each in found.list(prefix) if after is None or each.name > after)
    page = list(islice(names, limit + 1))
    return page[:limit], page[limit - 1].name if len(page) > limit else None


async def contents(console: Console, asked: Asked) -> Response:
    """A page of the contents of a business."""
    business, name, at = asked.part("business"), asked.text("contents") or "", asked.moment("at")
    prefix, after, limit = asked.text("prefix") or "", asked.text("cursor"), asked.count("limit")

    def read(view: View) -> shapes.Contents:
        page, following = page_of(stored(view, business, name, at), prefix, after, limit)
        names = names_of_stored(view.reader.read_business(business))
        return shapes.Contents(contents=[content_json(each) for each in page], structures=names, next=following)

    return json_answer(await console.reads.ask(read))


async def stat(console: Console, asked: Asked) -> Response:
    """One content, without its bytes."""
    content, _ = await _found(console, asked, lambda stored, name: None)
    return json_answer(content_json(content), headers={"ETag": f'"{content.sha256}"'})


async def data(console: Console, asked: Asked) -> Response:
    """The bytes of a content."""
    content, _ = await _found(console, asked, lambda stored, name: None)
    tag = f'"{content.sha256}"'
    headers = {
        "ETag": tag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(content.name.rpartition('/')[2] or 'content', safe='')}",
        "Content-Security-Policy": _SAFE,
    }
    if asked.header("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    first, end = 0, content.length
    wanted = None if asked.header("if-range") not in (None, tag) else asked.header("range")
    if wanted is not None and (span := _span(wanted, content.length)) is not None:
        first, end = span
        if first >= end:
            raise Refused(
                416, f"The content has {content.length:,} bytes.", {"Content-Range": f"bytes */{content.length}"}
            )
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{content.length}"
    headers["Content-Length"] = str(end - first)
    status = 206 if "Content-Range" in headers else 200
    if asked.request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type="application/octet-stream")
    opened, file = await _found(console, asked, lambda found, name: found.open(name, offset=first, length=end - first))
    if file is None or opened.sha256 != content.sha256:
        raise Refused(503, "The content was replaced meanwhile. Ask again.")
    return StreamingResponse(_pieces(console, file), status, headers, "application/octet-stream")


async def _found(
    console: Console, asked: Asked, use: Callable[[StoredContents, str], BufferedReader | None]
) -> tuple[Content, BufferedReader | None]:
    """A content, and what is opened of it. Raises `Refused` if there is none of this name."""
    business, structure, at = asked.part("business"), asked.text("contents") or "", asked.moment("at")
    name = asked.text("name") or ""

    def read(view: View) -> tuple[Content, BufferedReader | None]:
        found = stored(view, business, structure, at)
        try:
            return found.stat(name), use(found, name)
        except InvalidName as error:
            raise Refused(400, f"{error.what} {error.hint}".strip()) from error
        except KeyError:
            raise Refused(404, f"{business} has no content of this name.") from None

    return await console.reads.ask(read)


def _span(wanted: str, length: int) -> tuple[int, int] | None:
    """The bytes that a header `Range` asks for: from the first to before the end. None for a header that asks for several."""
    match = _RANGE.fullmatch(wanted.strip())
    if match is None or match[0] == "bytes=-":
        return None
    if not match[1]:
        return max(0, length - int(match[2])), length
    end = min(length, int(match[2]) + 1) if match[2] else length
    return (int(match[1]), end) if not match[2] or int(match[1]) <= int(match[2]) else None


async def _pieces(console: Console, file: BufferedReader) -> AsyncIterator[bytes]:
    """The bytes of a file. A worker reads one piece at a time: a slow caller holds none."""
    try:
        while piece := await console.workers.run(partial(file.read, _PIECE)):
            yield piece
    finally:
        file.close()
