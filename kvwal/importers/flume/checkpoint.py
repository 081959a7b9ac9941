"""The checkpoint of a file channel: the places of the events that were queued, or taken and not committed, at one write order.

The replay reads all logs from their beginnings, and needs no checkpoint where there is one data folder. With several data folders
Flume may have deleted a log that has a take, and still have the log of the put: the checkpoint then says that the event is gone.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import NamedTuple

from kvwal.importers.flume.records import VERSION
from kvwal.importers.source import NotWhole, SourceFile, folders_in
from kvwal.importers.wire import FIXED32, FIXED64, delimited, fields
from kvwal.ports.disk import Disk

_HEADER_LONGS = 1029
_VERSION, _ORDER, _MARKER = 0, 1, 4
"""Positions in the header of a checkpoint."""
_COMPLETE = 0
_LONG = 8
_DIGEST_BYTES = 16
_MOST_META = 1 << 20
_MOST_IN_FLIGHT = 1 << 26


class Checkpoint(NamedTuple):
    """A write order, and the places of all events that the channel had then: the number of a file in the upper 32 bits."""

    order: int
    places: set[int]


def checkpoint_in(disk: Disk, folder: Path) -> Checkpoint | None:
    """The checkpoint beside the data folders in a folder; None if there is none, or it is not complete, as after a crash."""
    for each in folders_in(disk, folder):
        if disk.exists(each / "checkpoint") and disk.exists(each / "checkpoint.meta"):
            try:
                return _read(disk, each)
            except NotWhole:
                return None
    return None


def _read(disk: Disk, folder: Path) -> Checkpoint:
    meta = delimited(disk.read_part(folder / "checkpoint.meta", 0, _MOST_META), 0)[0]
    found = {field.number: field for field in fields(meta)}
    if not {1, 2, 3, 4} <= found.keys():
        raise NotWhole("the checkpoint has no head")
    version, size, head = (found[number].fixed(FIXED32) for number in (1, 3, 4))
    order = found[2].fixed(FIXED64)
    file = SourceFile(disk, folder / "checkpoint")
    header = [_long(file, position) for position in (_VERSION, _ORDER, _MARKER)]
    capacity = file.size // _LONG - _HEADER_LONGS
    if version != VERSION or header != [VERSION, order, _COMPLETE] or not 0 <= size <= capacity or head < 0:
        raise NotWhole("the checkpoint is not complete")
    places = {_long(file, _HEADER_LONGS + (head + index) % capacity) for index in range(size)}
    return Checkpoint(order, places | _in_flight(disk, folder / "inflighttakes"))


def _in_flight(disk: Disk, path: Path) -> set[int]:
    """The events of open transactions: for each transaction its number, how many events, and their places."""
    if not disk.exists(path) or not disk.size(path):
        return set()
    data = disk.read_part(path, 0, _MOST_IN_FLIGHT)
    digest, numbers = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if hashlib.md5(numbers, usedforsecurity=False).digest() != digest or len(numbers) % _LONG:
        raise NotWhole("the takes in flight do not have their checksum")
    longs = struct.unpack(f">{len(numbers) // _LONG}q", numbers)
    places: set[int] = set()
    at = 0
    while at + 1 < len(longs):
        count = longs[at + 1]
        places.update(longs[at + 2 : at + 2 + count])
        at += 2 + max(0, count)
    return places


def _long(file: SourceFile, position: int) -> int:
    data = file.read(position * _LONG, _LONG)
    if len(data) < _LONG:
        raise NotWhole("the checkpoint ends early")
    return int.from_bytes(data, "big", signed=True)
