"""Bodies of requests: read up to a limit, and unpacked."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from kvwal.lineage.openlineage.events import MAX_BODY, NotGzip, TooLong, gunzipped

__all__ = ["ClientDisconnect", "Refused", "read_body", "read_form", "read_limited"]
BODY_SECONDS = 60
"""How long the body of a request may take to come."""
_MIB = MAX_BODY >> 20


class Refused(Exception):
    """A request that is refused: the status of the answer, the sentence in it, and headers."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers or {}


async def read_body(request: Request) -> bytes:
    """The body of a request of JSON, unpacked. Raises `Refused` for one that is too long, or of another kind."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # a page of the web may send other kinds to any address without asking
        raise Refused(415, "The body must be JSON: send Content-Type: application/json.")
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip"):
        raise Refused(415, f"The body is packed as {packing!r}: send it as it is, or with gzip.")
    try:
        body = await read_limited(request, MAX_BODY)
    except Refused as error:
        if error.status == 413:
            raise Refused(413, f"The body is longer than {_MIB} MiB: send fewer events at once.") from error
        raise
    if packing == "identity":
        return body
    try:
        return gunzipped([body])
    except TooLong as error:
        raise Refused(413, f"The body is longer than {_MIB} MiB once it is unpacked.") from error
    except NotGzip as error:
        raise Refused(400, "The body is no whole gzip, as its header says.") from error


async def read_limited(request: Request, most: int) -> bytes:
    """The body of a request as it is. Raises `Refused` for one that is longer than `most` bytes, or comes too slowly."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise Refused(413, f"The body is longer than {most:,} bytes.")
    except TimeoutError:
        raise Refused(408, f"The body did not come within {BODY_SECONDS} s.") from None
    return bytes(body)


async def read_form(request: Request, most: int) -> dict[str, str]:
    """The fields of a form of a page, of at most `most` bytes. Of a field that is there twice, the last."""
    body = await read_limited(request, most)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise Refused(400, "The form is no text of fields and values.") from error
