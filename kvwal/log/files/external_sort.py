"""External merge sort of entries: sorted runs in files, merged while they are read."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from kvwal.entry import Entry, encode_entries
from kvwal.log.files.atomic_file import created
from kvwal.log.files.names import partial_name
from kvwal.ports.disk import Disk

RUN_BYTES = 32 << 20
"""Bytes of keys and values that are sorted in memory at a time."""
_PIECE_ROWS = 500
_PIECE_BYTES = 128 << 10

Row = Any
"""The values of a stored entry, in the order of its fields. More values may follow."""


def row_of(entry: Entry, last: int) -> Row:
    """The values of a stored entry, and one more."""
    return (
        entry.key, entry.key_class, entry.value, entry.value_class, entry.deleted, entry.timestamp, entry.expires, last
    )  # fmt: skip


class Runs:
    """Sorts rows by `key`.

    Rows that do not fit into memory are written to temporary files in `folder`. The files are not part of a log there: if the
    process is killed, recovery deletes them.
    """

    def __init__(self, disk: Disk, folder: Path, key: Callable[[Row], Any]) -> None:
        self._disk = disk
        self._folder = folder
        self._key = key
        self._held: list[Row] = []
        self._bytes = 0
        self._runs: list[tuple[Path, list[tuple[int, int]]]] = []
        self.count = 0

    def add(self, row: Row) -> None:
        """Add one row."""
        self._held.append(row)
        self._bytes += len(row[0]) + len(row[2])
        self.count += 1
        if self._bytes >= RUN_BYTES or len(self._held) >= RUN_BYTES >> 7:
            self._write()

    def in_order(self) -> Iterator[Row]:
        """All rows in order. The files are deleted after the last row, and when the iteration ends before it."""
        self._held.sort(key=self._key)
        try:
            yield from heapq.merge(*(self._read(*run) for run in self._runs), self._held, key=self._key)
        finally:
            for path, _ in self._runs:
                self._disk.unlink(path)

    def _write(self) -> None:
        self._held.sort(key=self._key)
        path = self._folder / partial_name(f"run-{len(self._runs)}")
        self._disk.unlink(path)  # of a sort in this folder that was given up before its first row
        self._runs.append((path, write_pieces(self._disk, path, map(encode_entries, _pieces(self._held)))))
        self._held, self._bytes = [], 0

    def _read(self, path: Path, pieces: list[tuple[int, int]]) -> Iterator[Row]:
        for position, size in pieces:
            yield from msgspec.msgpack.decode(self._disk.read_part(path, position, size))


def write_pieces(disk: Disk, path: Path, pieces: Iterable[Any]) -> list[tuple[int, int]]:
    """Write a file of pieces (bytes, or buffers), one after the other. Returns the position and the size of each.

    After an error the file is deleted.
    """
    written: list[tuple[int, int]] = []
    with created(disk, path) as file:
        position = 0
        for data in pieces:
            file.write_at(position, [data])
            written.append((position, len(data)))
            position += len(data)
    return written


def _pieces(rows: list[Row]) -> Iterator[list[Row]]:
    piece: list[Row] = []
    size = 0
    for row in rows:
        piece.append(row)
        size += len(row[0]) + len(row[2])
        if len(piece) >= _PIECE_ROWS or size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
