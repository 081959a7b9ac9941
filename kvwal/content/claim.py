"""Claims: the value of a content's entry, which says where its bytes stand and what they must be.

A claim names a claim file, and a stretch of it. Claim files never change once they are written: a change of a content is another
claim. docs/format/content.md has the fields.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from kvwal.entry import DataEntry, Entry
from kvwal.errors import ContentDamaged
from kvwal.key_class import CONTENT, kind_of, structure_of

VALUE_CLASS = "json"
"""The codec of a content's value: any reader of the log, SQL and Spark read the fields of a claim."""
_ID = re.compile(r"[0-9a-f]{32}")


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the bytes of a content stand: `length` bytes of the claim file `file`, from `offset` on.

    `crc32c` and `sha256` (in hex) are theirs. `attributes` is what the writer said of them.
    """

    file: str
    offset: int
    length: int
    crc32c: int
    sha256: str
    attributes: dict[str, str] = {}

    @property
    def bytes_of(self) -> tuple[str, int, int]:
        """The stretch of a file, without what is said of it: equal for copies of a content."""
        return self.file, self.offset, self.length

    def told(self, attributes: dict[str, str]) -> Claim:
        """The same bytes, with other attributes."""
        return msgspec.structs.replace(self, attributes=attributes)

    def value(self) -> bytes:
        """The value of an entry with this claim."""
        return _encode(self)


class Content(NamedTuple):
    """A content, without its bytes. `length` is in bytes, `sha256` in hex; `timestamp` is that of the last change."""

    name: str
    length: int
    sha256: str
    attributes: dict[str, str]
    timestamp: int

    @property
    def codec(self) -> str:
        """How the bytes are compressed, as the attribute `codec` says; empty if it says nothing."""
        return self.attributes.get("codec", "")


_encode = msgspec.json.Encoder(order="deterministic").encode
_decoder = msgspec.json.Decoder(Claim)


def is_content(key_class: str) -> bool:
    """Whether entries of this class are contents."""
    return kind_of(structure_of(key_class)) == CONTENT


def claim_of(entry: Entry | DataEntry) -> Claim:
    """The claim of a content's entry, which is no delete. `ContentDamaged` if it is none of this version."""
    try:
        claim = _decoder.decode(entry.value)
    except msgspec.DecodeError as error:
        raise _no_claim(entry, str(error)) from error
    if not _ID.fullmatch(claim.file):
        raise _no_claim(entry, "its file has no name of a claim file")
    if min(claim.offset, claim.length) < 0:
        raise _no_claim(entry, "its offset or length is negative")
    return claim


def content_of(entry: Entry | DataEntry) -> Content:
    """What callers see of an entry. Raises `ContentDamaged`."""
    claim = claim_of(entry)
    return Content(name_of(entry), claim.length, claim.sha256, claim.attributes, entry.timestamp)


def name_of(entry: Entry | DataEntry) -> str:
    """The name of the content of an entry."""
    return entry.key.decode(errors="replace")


def is_claim_file(name: str) -> bool:
    """Whether a file has the name of a claim file."""
    return _ID.fullmatch(name) is not None


def file_name(random_bits: int) -> str:
    """The name of a new claim file, for 128 random bits. No two files of a business have one name, on no node."""
    return f"{random_bits:032x}"


def _no_claim(entry: Entry | DataEntry, why: str) -> ContentDamaged:
    return ContentDamaged(
        f"{entry.key_class}: the content {name_of(entry)!r} has a value that is no claim: {why}.",
        hint="A newer version may have written it: upgrade kvwal. Its bytes are still beside the log.",
    )
