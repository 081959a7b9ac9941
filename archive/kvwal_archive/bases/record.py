"""The commit of a base: a JSON object, put only if absent, after all parts of the base.

A base without a commit is not there. So no reader sees half of one.
"""

from __future__ import annotations

import msgspec

from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import BaseName, PartNumber, base_key
from kvwal_archive.parquet.rows import FORMAT, Footer, ObjectInfo, check_format

BLANK_CRC = "00000000"
DELETE_HINT = "The objects of the logs hold the rows too: delete this file, and the base is not read any more."


class BasePosition(msgspec.Struct, frozen=True):
    """The position of a base in the log of one node: the base holds the log up to `sequence`, the last of the log `log_id`.

    `timestamp` is the greatest up to there, and `horizon` the greatest of the objects up to there. A node without objects has
    the sequence 0.
    """

    log_id: str
    sequence: int
    timestamp: int
    horizon: int


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a base: an object with rows of one node in one range of keys. `footer` is the record in its footer."""

    range: int
    piece: int
    size: int
    footer: Footer

    @property
    def number(self) -> PartNumber:
        """The number of the part within the base."""
        return PartNumber(self.range, self.piece, self.footer.node)


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a base. `positions` has every node that was registered when the base was made.

    The parts of a node are in the order of their keys. `crc` is the crc32c of the record, in hex, with zeros in its place.
    """

    format: int = FORMAT
    namespace: str
    cluster: str
    business: str
    timestamp: int
    id: str
    positions: dict[str, BasePosition]
    parts: list[Part]
    crc: str = BLANK_CRC

    @property
    def name(self) -> BaseName:
        """The name of the base."""
        return BaseName(self.namespace, self.cluster, self.business, self.timestamp, self.id)

    @property
    def key(self) -> str:
        """The key of the commit."""
        return base_key(self.name)

    def part_key(self, part: Part) -> str:
        """The key of one of the parts."""
        return base_key(self.name, part.number)

    def objects_of(self, node: str) -> list[ObjectInfo]:
        """The parts with rows of `node`, in the order of their keys."""
        return [
            ObjectInfo(self.part_key(part), part.footer.span, part.footer, part.size, 0)
            for part in self.parts
            if part.footer.node == node
        ]


def encode_base(base: Base) -> bytes:
    """The record as bytes, with its checksum."""
    blank = msgspec.json.encode(msgspec.structs.replace(base, crc=BLANK_CRC))
    return msgspec.json.encode(msgspec.structs.replace(base, crc=_crc(blank)))


def decode_base(raw: bytes, name: BaseName) -> Base:
    """The record of the base `name`. Raises ArchiveDamaged if it is not what was put, NewerFormat."""
    key = base_key(name)
    try:
        check_format(raw, key)
        base = msgspec.json.decode(raw, type=Base)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged_base(key, f"cannot be read: {error}") from error
    end = len(BLANK_CRC) + 2  # the checksum is the last field
    if base.crc != _crc(raw[:-end] + BLANK_CRC.encode() + raw[-2:]):
        raise damaged_base(key, "is not what was put: its checksum does not match")
    if base.name != name:
        raise damaged_base(key, "is that of another base: the file was renamed or copied")
    return base


def damaged_base(key: str, what: str) -> ArchiveDamaged:
    """The error of a base whose commit or part is not what was put."""
    return ArchiveDamaged(f"{key}: the record of the base {what}.", hint=DELETE_HINT)


def _crc(record: bytes) -> str:
    import google_crc32c

    return f"{google_crc32c.value(record):08x}"
