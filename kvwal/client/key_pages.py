"""Keys of a cluster's map in pages, partition by partition, as Hazelcast's Java client iterates over a map.

hazelcast-python-client has no codec for this request (MapFetchKeys), so the codec is here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from hazelcast.future import Future as HazelcastFuture
from hazelcast.protocol.builtin import DataCodec, FixSizedTypesCodec, ListMultiFrameCodec, StringCodec
from hazelcast.protocol.client_message import REQUEST_HEADER_SIZE, OutboundMessage, create_initial_buffer
from hazelcast.serialization.bits import LE_INT
from hazelcast.serialization.data import Data

from kvwal.client.link import Link

KEYS_PER_PAGE = 1000
_FETCH_KEYS = 0x013700
_FRAME_HEADER = 6
_AT_ONCE = 16
"""Requests that are on their way at a time."""

Pointer = tuple[int, int]
"""A position in a partition's hash table: the index (below 0: the end) and the size of the table."""
_START: list[Pointer] = [((1 << 31) - 1, -1)]


class KeyPage(NamedTuple):
    """Some keys of a partition, and the pointers to the keys after them."""

    pointers: list[Pointer]
    keys: list[Data]


def fetch_keys(link: Link, proxy: Any, label: str) -> Iterator[Data]:
    """All keys of a map, in no order, at most `KEYS_PER_PAGE` of a message.

    A key that is there for the whole time is given once or more often.
    """
    partitions = iter(range(link.client.partition_service.get_partition_count()))
    asked: deque[tuple[int, HazelcastFuture[KeyPage]]] = deque()

    def ask(partition: int, pointers: list[Pointer]) -> None:
        asked.append((partition, proxy._invoke_on_partition(_request(proxy.name, pointers), partition, _decode)))

    for partition in partitions:
        ask(partition, _START)
        if len(asked) == _AT_ONCE:
            break
    while asked:
        partition, future = asked.popleft()
        page = link.result(partial(_itself, future), label)
        if page.pointers[-1][0] >= 0:
            ask(partition, page.pointers)
        elif (following := next(partitions, None)) is not None:
            ask(following, _START)
        yield from page.keys


def _itself(future: HazelcastFuture[KeyPage]) -> HazelcastFuture[KeyPage]:
    return future


def _request(name: str, pointers: list[Pointer]) -> OutboundMessage:
    buffer = create_initial_buffer(REQUEST_HEADER_SIZE + 4, _FETCH_KEYS)  # type: ignore[no-untyped-call]
    FixSizedTypesCodec.encode_int(buffer, REQUEST_HEADER_SIZE, KEYS_PER_PAGE)  # type: ignore[no-untyped-call]
    StringCodec.encode(buffer, name)  # type: ignore[no-untyped-call]
    numbers = b"".join(LE_INT.pack(number) for pointer in pointers for number in pointer)
    frame = bytearray(LE_INT.pack(_FRAME_HEADER + len(numbers)) + bytes(2) + numbers)
    frame[5] = 1 << 5  # the high byte of the flags: the last frame
    buffer.extend(frame)
    return OutboundMessage(buffer, True)  # type: ignore[no-untyped-call]


def _decode(message: Any) -> KeyPage:
    message.next_frame()
    numbers = [number for (number,) in LE_INT.iter_unpack(bytes(message.next_frame().buf))]
    keys = ListMultiFrameCodec.decode(message, DataCodec.decode)  # type: ignore[no-untyped-call]
    return KeyPage(list(zip(numbers[::2], numbers[1::2], strict=True)), keys)
