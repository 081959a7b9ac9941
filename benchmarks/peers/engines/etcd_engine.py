"""etcd over gRPC. Its messages are small, so they are encoded here: its Python clients are years behind protobuf."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from benchmarks.peers.engines.base import Opening

LIMIT = 64 << 20


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def field(number: int, value: bytes) -> bytes:
    """A field of bytes, or of a message inside a message."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def flag(number: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(number << 3) + varint(value)


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message. Those of a fixed width do not occur in what etcd answers."""
    place = 0
    while place < len(message):
        tag, place = read_varint(message, place)
        number, place = read_varint(message, place)
        if tag & 7 == 2:
            yield tag >> 3, message[place : place + number]
            place += number
        else:
            yield tag >> 3, number


def read_varint(message: bytes, place: int) -> tuple[int, int]:
    """A number, and the place behind it."""
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place


class Etcd:
    """One server, through one channel."""

    def __init__(self, opening: Opening) -> None:
        sizes = [("grpc.max_receive_message_length", LIMIT), ("grpc.max_send_message_length", LIMIT)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{opening.port}", options=sizes)
        call = self._channel.unary_unary
        self._put, self._range = call("/etcdserverpb.KV/Put"), call("/etcdserverpb.KV/Range")
        self._delete, self._txn = call("/etcdserverpb.KV/DeleteRange"), call("/etcdserverpb.KV/Txn")
        self._compact = call("/etcdserverpb.KV/Compact")
        self._defragment = call("/etcdserverpb.Maintenance/Defragment")

    def put(self, entries: dict[str, bytes]) -> None:
        """Put, or a transaction without a condition (128 operations at most, unless the server allows more)."""
        puts = [field(1, key.encode()) + field(2, value) for key, value in entries.items()]
        if len(puts) == 1:
            self._put(puts[0])
        else:
            self._txn(b"".join(field(2, field(2, put)) for put in puts))

    def put_for(self, key: str, value: bytes, seconds: float) -> None:
        """It takes a lease for each time to live, which is another request: left out."""
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """DeleteRange of one key."""
        self._delete(field(1, key.encode()))

    def get(self, key: str) -> bytes | None:
        """Range of one key, linearizable as by default."""
        for number, pair in fields(self._range(field(1, key.encode()))):
            if number == 2 and isinstance(pair, bytes):
                return next(value for name, value in fields(pair) if name == 5 and isinstance(value, bytes))
        return None

    def scan(self, start: str, count: int) -> int:
        """Range from a key to the end, with a limit."""
        answer = self._range(field(1, start.encode()) + field(2, b"\0") + flag(3, count))
        return sum(1 for number, _ in fields(answer) if number == 2)

    def count(self) -> int:
        """Range of all keys, the count alone."""
        answer = self._range(field(1, b"\0") + field(2, b"\0") + flag(9, 1))
        return next((value for number, value in fields(answer) if number == 4 and isinstance(value, int)), 0)

    def revision(self) -> int:
        """The server's newest revision."""
        header = next(value for number, value in fields(self._range(field(1, b"\0"))) if number == 1)
        assert isinstance(header, bytes)
        return next(value for number, value in fields(header) if number == 3 and isinstance(value, int))

    def compact(self) -> None:
        """Drop the revisions of the past, and give their pages back."""
        self._compact(flag(1, self.revision()) + flag(2, 1))
        self._defragment(b"")

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
