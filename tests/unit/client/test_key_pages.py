"""The request for a page of keys: its bytes are those of Hazelcast's own codec (MapFetchKeysCodec of 5.7.0)."""

from __future__ import annotations

from hazelcast.protocol.client_message import Frame, InboundMessage

from kvwal.client.key_pages import KEYS_PER_PAGE, _decode, _request

REQUEST = bytes.fromhex(
    "1a00000000c0003701000000000000000000ffffffffe80300000a00000000006a6f62730e0000000020ffffff7fffffffff"
)
"""`encodeRequest("jobs", [(2147483647, -1)], 1000)`, written as frames."""
RESPONSE = bytes.fromhex(
    "1300000000c0013701000000000000000000001600000000000700000040000000ffffffff8000000006000000001014000000000000000000fffffff5"
    "61626364656613000000000000000000fffffff56465666768060000000028"
)
"""`encodeResponse([(7, 64), (-1, 128)], ["abcdef", "defgh"])`, written as frames."""


def test_a_request_is_encoded_as_by_hazelcast() -> None:
    assert KEYS_PER_PAGE == 1000
    assert bytes(_request("jobs", [((1 << 31) - 1, -1)]).buf) == REQUEST


def test_a_page_is_decoded_as_by_hazelcast() -> None:
    frames, at = [], 0
    while at < len(RESPONSE):
        size = int.from_bytes(RESPONSE[at : at + 4], "little")
        frames.append(Frame(RESPONSE[at + 6 : at + size], int.from_bytes(RESPONSE[at + 4 : at + 6], "little")))  # type: ignore[no-untyped-call]
        at += size
    message = InboundMessage(frames[0])  # type: ignore[no-untyped-call]
    for frame in frames[1:]:
        message.add_frame(frame)  # type: ignore[no-untyped-call]
    page = _decode(message)
    assert page.pointers == [(7, 64), (-1, 128)]
    assert [bytes(key.buffer)[8:] for key in page.keys] == [b"abcdef", b"defgh"]
