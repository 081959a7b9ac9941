"""The baselines: the plainest Python program with the same result."""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

import google_crc32c
import msgspec

from benchmarks.harness import peak_memory

ENTRY_BYTES = 140  # the size in a log of an entry with a value of 100 bytes
BLOCK = struct.Struct("<IIBBH")  # docs/format/segment.md
HEADER, ENTRIES = 1, 2


def bare_appends(folder: Path, seconds: float, size: int = ENTRY_BYTES) -> float:
    """Appends a second of `size` bytes to a growing file, each made durable by fdatasync."""
    data = os.urandom(size)
    path = folder / "bare.log"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
    try:
        count, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            os.write(file, data)
            os.fdatasync(file)
            count += 1
        return count / elapsed
    finally:
        os.close(file)
        path.unlink()


class Record(msgspec.Struct, array_like=True, gc=False):
    """An entry, as the baseline decodes it."""

    key: bytes
    key_class: str
    value: bytes
    value_class: str
    deleted: bool
    timestamp: int
    expires: int = 0


def bare_recovery(folder: str) -> dict[str, float]:
    """Map, checksum and decode every segment under `folder`, and keep the last value and timestamp of every key."""
    started = time.perf_counter()
    table: dict[bytes, tuple[bytes, int]] = {}
    decode = msgspec.msgpack.Decoder(list[Record]).decode
    for path in sorted(Path(folder).rglob("*.wal")):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            bare_segment(view, table, decode)
            view.release()
    return {"seconds": time.perf_counter() - started, "keys": len(table), "memory": peak_memory()}


def bare_segment(view: memoryview, table: dict[bytes, tuple[bytes, int]], decode: object) -> None:
    """Decode one segment into the table."""
    offset = 0
    while offset + BLOCK.size <= len(view):
        length, _, kind, _, _ = BLOCK.unpack_from(view, offset)
        if kind == 0:
            return
        end = offset + BLOCK.size + length
        payload = view[offset + BLOCK.size : end]
        google_crc32c.value(bytes(payload))
        if kind == ENTRIES:
            for record in decode(payload):  # type: ignore[operator]
                table[record.key] = (record.value, record.timestamp)
        payload.release()
        offset = (end + 7) // 8 * 8
