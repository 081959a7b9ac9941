"""Records of a file `wal.txt`: a length in 4 bytes, little-endian, 8 zeros, and a message of Protostuff: `IMapFileData`.

No checksum protects a record: a flipped bit in a key or value that leaves a valid record cannot be seen, by SeaTunnel neither.
The eight zeros and the shape of the message are all that tells a record from other bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvwal.importers.source import MOST_RECORD, WINDOW, EndsEarly, NotWhole, SourceFile
from kvwal.importers.wire import fields

HEAD_BYTES = 12
ZEROS = bytes(8)
_LENGTH_BYTES = 4
_CLASS = re.compile(r"[A-Za-z_$\[][\w$.;\[]{0,1023}")
_MOST_TIMESTAMP = 1 << 47
"""Milliseconds since 1970; the year 6429."""
DELETED, KEY, KEY_CLASS, VALUE, VALUE_CLASS, TIMESTAMP = range(1, 7)
"""The numbers of the fields, in the order in which the class declares them."""


class Record(NamedTuple):
    """A change of a key: bytes of SeaTunnel's serializer, and the names of the Java classes."""

    deleted: bool
    key: bytes
    key_class: str
    value: bytes
    value_class: str
    timestamp: int
    end: int
    """The offset behind the record."""


def record_at(file: SourceFile, offset: int) -> Record:
    """The record that begins at an offset. Raises `EndsEarly` if the file ends in it, and `NotWhole` if there is none."""
    head = file.read(offset, HEAD_BYTES)
    if not ZEROS.startswith(head[_LENGTH_BYTES:]):
        raise NotWhole("the eight bytes behind the length are not zero")
    if len(head) < HEAD_BYTES:
        raise EndsEarly("the file ends in the length of a record")
    size = int.from_bytes(head[:_LENGTH_BYTES], "little", signed=True)
    if not 0 < size <= MOST_RECORD:
        raise NotWhole(f"the length is {size:,}")
    end = offset + HEAD_BYTES + size
    if end > file.size:
        raise EndsEarly(f"the file has {file.size - offset - HEAD_BYTES:,} of the record's {size:,} bytes")
    if size > WINDOW and not ZEROS.startswith(file.read(end + _LENGTH_BYTES, len(ZEROS))):
        raise NotWhole(f"the length is {size:,}, and no record follows")
    return _parsed(file.read(offset + HEAD_BYTES, size), end)


def _parsed(data: bytes, end: int) -> Record:
    deleted, timestamp, key, value = 0, -1, None, b""
    key_class = value_class = ""
    last = 0
    for field in fields(data):
        if field.number <= last:
            raise NotWhole(f"field {field.number} stands behind field {last}")
        last = field.number
        if last == DELETED:
            deleted = field.varint()
        elif last == KEY:
            key = field.data()
        elif last == KEY_CLASS:
            key_class = _class_name(field.text())
        elif last == VALUE:
            value = field.data()
        elif last == VALUE_CLASS:
            value_class = _class_name(field.text())
        elif last == TIMESTAMP:
            timestamp = field.varint()
        else:
            raise NotWhole(f"field {last} is not known")
    if key is None or not key_class or deleted > 1 or not 0 <= timestamp < _MOST_TIMESTAMP:
        raise NotWhole("the message is no change of a key")
    if bool(deleted) == bool(value_class) or (deleted and value):
        raise NotWhole("the message has a value and a delete, or neither")
    return Record(bool(deleted), key, key_class, value, value_class, timestamp, end)


def _class_name(name: str) -> str:
    if not _CLASS.fullmatch(name):
        raise NotWhole(f"{name!r:.40} is no class name")
    return name


def next_record(file: SourceFile, start: int) -> int:
    """The offset of the first whole record from `start` on, -1 if there is none.

    A message begins with the tag of its first field, which is not zero: the zeros of a head end where a run of zeros ends.
    """
    at = start
    while (at := file.find(ZEROS, at)) >= 0:
        at = file.skip(at, 0)
        if at - HEAD_BYTES >= start and is_record(file, at - HEAD_BYTES):
            return at - HEAD_BYTES
    return -1


def is_record(file: SourceFile, offset: int) -> bool:
    """Whether a whole record begins at an offset."""
    try:
        record_at(file, offset)
    except NotWhole:
        return False
    return True
