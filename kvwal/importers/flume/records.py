"""Records of a log file of Flume's file channel, format 3.

A file has records one after the other: a byte 0x7F, the length in 4 bytes, big-endian, then three messages of Protocol Buffers,
each behind its length: the header (type, transaction, write order), what the type says, and an empty footer. Behind the last
record the file is filled with bytes 0x80, a megabyte at a time. A record that Flume's integrity tool took out begins with 0x00.
Only the body of an event has a checksum.
"""

from __future__ import annotations

import base64
import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from kvwal.errors import ConfigError, NewerVersion
from kvwal.importers.source import MOST_RECORD, WINDOW, EndsEarly, NotWhole, SourceFile
from kvwal.importers.wire import FIXED32, FIXED64, delimited, fields
from kvwal.ports.disk import Disk

VERSION = 3
RECORD, NO_RECORD, FILL = 0x7F, 0x00, 0x80
PUT, TAKE, ROLLBACK, COMMIT = 1, 2, 3, 4
HEAD_BYTES = 5
_HEADER_START = b"\x17\x0d"
_HEADER_BYTES = 24
_START = re.compile(rb"\x7f[\x00-\x03]...\x17\x0d[\x01-\x04]\0\0\0\x11.{8}\x19.{8}", re.DOTALL)
"""The head of a record and its header: length 23, then type, transaction and write order with their tags."""
_FOLLOWING = (b"", bytes([RECORD]), bytes([NO_RECORD]), bytes([FILL]))
"""What may stand behind a record."""
_MOST_META = 1 << 16
_OLD_FORMAT = b"\0\0\0\x02"
_ENCRYPTION = 5


class Record(NamedTuple):
    """A record. `about` is the message of its type, `end` the offset behind it."""

    kind: int
    transaction: int
    order: int
    about: bytes
    end: int


class Event(NamedTuple):
    """An event of Flume."""

    headers: dict[str, str]
    body: bytes


def check_meta(disk: Disk, log: Path) -> None:
    """Raise `ConfigError` if the file beside a log says that kvwal cannot read it: another format, or an encrypted log."""
    meta = next((path for end in (".meta", ".meta.tmp", ".meta.old") if disk.exists(path := Path(f"{log}{end}"))), None)
    if meta is None:
        if disk.read_part(log, 0, len(_OLD_FORMAT)) == _OLD_FORMAT:
            raise ConfigError(
                f"{log} has the log format 2 of a Flume before 1.3, and kvwal reads {VERSION}; nothing was imported.",
                hint="Start its channel with Flume 1.11, which brings the format up to date.",
            )
        return
    try:
        found = {field.number: field for field in fields(delimited(disk.read_part(meta, 0, _MOST_META), 0)[0])}
        version = found[1].fixed(FIXED32)
    except (NotWhole, KeyError):
        return  # the log itself says what it is
    if version > VERSION:
        raise NewerVersion(
            f"{log} has the log format {version} of a newer Flume, and kvwal reads {VERSION}; nothing was imported.",
            hint="Upgrade kvwal.",
        )
    if _ENCRYPTION in found:
        raise ConfigError(
            f"{log} is encrypted, and its key is in a keystore of Flume; nothing was imported.",
            hint="Take the events out with Flume.",
        )


def record_at(file: SourceFile, offset: int) -> Record:
    """The record that begins at an offset with `RECORD`. Raises `EndsEarly` if the file ends in it, else `NotWhole`."""
    data, end = _bytes_at(file, offset)
    try:
        header, at = delimited(data, 0)
        about, at = delimited(data, at)
        footer, at = delimited(data, at)
        if at != len(data) or footer:
            raise NotWhole("the record goes on behind its footer")
        kind, transaction, order = _header(header)
        _check(kind, about)
    except EndsEarly as error:
        raise NotWhole(error.what) from error
    return Record(kind, transaction, order, about, end)


def end_of(file: SourceFile, offset: int) -> int:
    """The offset behind a record of which only the length is read."""
    return _bytes_at(file, offset)[1]


def _bytes_at(file: SourceFile, offset: int) -> tuple[bytes, int]:
    head = file.read(offset, HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        raise EndsEarly("the file ends in the length of a record")
    size = int.from_bytes(head[1:], "big", signed=True)
    if not 0 < size <= MOST_RECORD:
        raise NotWhole(f"the length is {size:,}")
    end = offset + HEAD_BYTES + size
    if end > file.size:
        raise EndsEarly(f"the file has {file.size - offset - HEAD_BYTES:,} of the record's {size:,} bytes")
    if size > WINDOW and file.read(end, 1) not in _FOLLOWING:
        raise NotWhole(f"the length is {size:,}, and no record follows")
    return file.read(offset + HEAD_BYTES, size), end


def _header(data: bytes) -> tuple[int, int, int]:
    found = list(fields(data))
    if [field.number for field in found] != [1, 2, 3]:
        raise NotWhole("the record has another header")
    kind, transaction, order = found[0].fixed(FIXED32), found[1].fixed(FIXED64), found[2].fixed(FIXED64)
    if not PUT <= kind <= COMMIT or transaction < 0 or order < 0:
        raise NotWhole(f"the record is of the unknown type {kind}")
    return kind, transaction, order


def _check(kind: int, about: bytes) -> None:
    """Raise `NotWhole` unless the message is one of this type."""
    if kind == PUT:
        event_of(about)
    elif kind == TAKE:
        taken(about)
    elif kind == COMMIT:
        committed(about)
    elif about:
        raise NotWhole("a rollback has fields")


def event_of(about: bytes) -> Event:
    """The event of a put. Raises `NotWhole`, also if the body does not have its checksum."""
    found = {field.number: field for field in fields(about)}
    if not {1} <= found.keys() <= {1, 2}:
        raise NotWhole("a put has no event")
    headers: dict[str, str] = {}
    body = None
    for field in fields(found[1].data()):
        if field.number == 1:
            parts = {part.number: part.text() for part in fields(field.data())}
            if not {1} <= parts.keys() <= {1, 2}:
                raise NotWhole("a header has no key")
            headers[parts[1]] = parts.get(2, "")
        elif field.number == 2 and body is None:
            body = field.data()
        else:
            raise NotWhole(f"an event has the unknown field {field.number}")
    if body is None:
        raise NotWhole("an event has no body")
    if 2 in found and found[2].fixed(FIXED64) != zlib.crc32(body):
        raise NotWhole("the body of the event does not have its checksum")
    return Event(headers, body)


def taken(about: bytes) -> tuple[int, int]:
    """The number of the file and the offset of the put that a take took. Raises `NotWhole`."""
    found = list(fields(about))
    if [field.number for field in found] != [1, 2]:
        raise NotWhole("a take names no event")
    file, offset = (field.fixed(FIXED32) for field in found)
    if file < 0 or offset < 0:
        raise NotWhole("a take names no event")
    return file, offset


def committed(about: bytes) -> int:
    """What a commit commits: `PUT` or `TAKE`. Raises `NotWhole`."""
    found = list(fields(about))
    if [field.number for field in found] != [1] or (kind := found[0].fixed(FIXED32)) not in (PUT, TAKE):
        raise NotWhole("a commit is neither of puts nor of takes")
    return kind


def next_record(file: SourceFile, start: int) -> int:
    """The offset of the first whole record from `start` on, -1 if there is none.

    Every header has the same length and the same tags. They are looked for first, so that no long record is read for nothing.
    """
    at = start + HEAD_BYTES
    while (at := file.find(_HEADER_START, at)) >= 0:
        offset = at - HEAD_BYTES
        if _START.match(file.read(offset, HEAD_BYTES + _HEADER_BYTES)):
            try:
                record_at(file, offset)
            except NotWhole:
                pass
            else:
                return offset
        at += 1
    return -1


def value_of(event: Event) -> dict[str, Any]:
    """The item of a queue: headers and body. A body that is no UTF-8 text is base64, and `body_encoding` says so."""
    try:
        return {"headers": event.headers, "body": event.body.decode()}
    except UnicodeDecodeError:
        return {"headers": event.headers, "body": base64.b64encode(event.body).decode(), "body_encoding": "base64"}
