"""Bodies of requests: read up to a limit, and unpacked."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request

from kvwal.lineage.openlineage.events import MAX_BODY, NotGzip, TooLong, gunzipped

__all__ = ["ClientDisconnect", "Refused", "read_body"]
_MIB = MAX_BODY >> 20


class Refused(Exception):
    """A request that is refused: the status of the answer, and the sentence in it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


async def read_body(request: Request) -> bytes:
    """The body of a request of JSON, unpacked. Raises `Refused` for one that is too long, or of another kind."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # a page of the web may send other kinds to any address without asking
        raise Refused(415, "The body must be JSON: send Content-Type: application/json.")
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip"):
        raise Refused(415, f"The body is packed as {packing!r}: send it as it is, or with gzip.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise Refused(413, f"The body is longer than {_MIB} MiB: send fewer events at once.")
    if packing == "identity":
        return bytes(body)
    try:
        return gunzipped([bytes(body)])
    except TooLong as error:
        raise Refused(413, f"The body is longer than {_MIB} MiB once it is unpacked.") from error
    except NotGzip as error:
        raise Refused(400, "The body is no whole gzip, as its header says.") from error
