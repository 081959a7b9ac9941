"""The messages that the engine of etcd writes and reads are protobuf's."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="grpc is not installed: pip install 'kvwal[peers]' brings it")

from benchmarks.peers.engines.etcd_engine import field, fields, flag, varint


@pytest.mark.parametrize(("number", "written"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")])
def test_numbers_are_written_as_protobuf_says(number: int, written: bytes) -> None:
    assert varint(number) == written


def test_what_is_written_is_read_again() -> None:
    message = field(1, b"key") + field(2, b"v" * 300) + flag(9, 1) + flag(4, 1 << 40)
    assert list(fields(message)) == [(1, b"key"), (2, b"v" * 300), (9, 1), (4, 1 << 40)]
