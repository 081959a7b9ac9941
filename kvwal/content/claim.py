"""Claims: the value of a content's entry, which says where its bytes stand and what they must be.

An entry of a map or a queue has a claim in place of a large value; `content:` is before the class of that value.

A claim names a claim file, and a stretch of it. Claim files never change once they are written: a change of a content is another
claim. docs/format/content.md has the fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kvwal.entry import DataEntry, Entry, is_claimed, make_entry
from kvwal.errors import ContentDamaged
from kvwal.key_class import CONTENT, OWN_MAP, QUEUE, kind_of, structure_of
from kvwal.key_codecs import decode_int
from kvwal_archive.layout import PUT_FIRST

VALUE_CLASS = "json"
"""The codec of a content's value: any reader of the log, SQL and Spark read the fields of a claim."""
MOST_CLAIM = 512
"""More bytes than the claim of a value has, which has no attributes."""
_OF_VALUES = frozenset({OWN_MAP, "map", QUEUE})
_ID = re.compile(r"[0-9a-f]{32}")


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the bytes of a content stand: `length` bytes of the claim file `file`, from `offset` on.

    `crc32c` and `sha256` (in hex) are theirs; the SHA-256 of a large value of a map or a queue is empty. `attributes` is what the
    writer said of them.
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


def has_claim(entry: Entry | DataEntry) -> bool:
    """Whether an entry names a claim file: a content, or a large value of a map or a queue.

    The one rule for all that must know which claim files are named: checkpoint, clean-up, archive, scrub, backup. The archive's
    own form of it is `kvwal_archive.contents.claims.claims_of`.
    """
    return not entry.deleted and (is_claimed(entry.value_class) or is_content(entry.key_class))


def may_stand_beside(key_class: str) -> bool:
    """Whether large values of entries of this class stand beside the log: those of maps, and items of queues."""
    structure = structure_of(key_class)
    return kind_of(structure) in _OF_VALUES and not key_class.startswith("_", len(structure) + 1)


def value_bytes(entry: Entry) -> int:
    """The bytes of the value of an entry, also if they stand beside the log."""
    return claim_of(entry).length if is_claimed(entry.value_class) else len(entry.value)


def with_claim(entry: Entry, claim: Claim) -> Entry:
    """The same entry, with other bytes that are equal. It has no timestamp yet."""
    return make_entry(entry.key, entry.key_class, claim.value(), entry.value_class, False, 0, entry.expires)


def same_value(one: Entry, other: Entry) -> bool:
    """Whether two entries have equal values, wherever their bytes stand. The bytes of large ones are compared by checksum."""
    return value_mark(one) == value_mark(other)


def value_mark(entry: Entry) -> tuple[str, bytes]:
    """What two entries have in common if they have equal values: its class and its bytes, or their length and CRC-32C."""
    if not is_claimed(entry.value_class):
        return entry.value_class, entry.value
    claim = claim_of(entry)
    return entry.value_class, f"{claim.length} {claim.crc32c}".encode()


def claim_of(entry: Entry | DataEntry) -> Claim:
    """The claim of an entry that has one (`has_claim`). `ContentDamaged` if it is none of this version."""
    return parsed_claim(entry.value, lambda: f"{entry.key_class}: {what_of(entry)}")


def parsed_claim(value: bytes, what: Callable[[], str]) -> Claim:
    """The claim that a value is. `ContentDamaged`, which says of `what`, if it is none of this version."""
    try:
        claim = _decoder.decode(value)
    except msgspec.DecodeError as error:
        raise _no_claim(what(), str(error)) from error
    if not _ID.fullmatch(claim.file):
        raise _no_claim(what(), "its file has no name of a claim file")
    if min(claim.offset, claim.length) < 0:
        raise _no_claim(what(), "its offset or length is negative")
    return claim


def content_of(entry: Entry | DataEntry) -> Content:
    """What callers see of an entry. Raises `ContentDamaged`."""
    claim = claim_of(entry)
    return Content(name_of(entry), claim.length, claim.sha256, claim.attributes, entry.timestamp)


def name_of(entry: Entry | DataEntry) -> str:
    """The name of the content of an entry."""
    return entry.key.decode(errors="replace")


def what_of(entry: Entry | DataEntry) -> str:
    """The content or the value of an entry that has a claim, as errors name it: by name, or by key and structure."""
    if is_content(entry.key_class):
        return f"the content {name_of(entry)!r}"
    structure = structure_of(entry.key_class)
    key = str(decode_int(entry.key)) if entry.key_class.endswith("int") else repr(name_of(entry))
    return f"the value of {key} in {structure}" if structure else f"the value of {key}"


def is_claim_file(name: str) -> bool:
    """Whether a file has the name of a claim file."""
    return _ID.fullmatch(name) is not None


def file_name(random_bits: int) -> str:
    """The name of a new claim file, for 128 random bits. No two files of a business have one name, on no node."""
    return f"{random_bits:032x}"


def put_first_name(random_bits: int) -> str:
    """As `file_name`, of a file that is put into the archive before the entry that names it is logged."""
    return file_name(random_bits)[: -len(PUT_FIRST)] + PUT_FIRST


def _no_claim(what: str, why: str) -> ContentDamaged:
    return ContentDamaged(
        f"{what} has a value that is no claim: {why}.",
        hint="A newer version may have written it: upgrade kvwal. Its bytes are still beside the log.",
    )
