"""Contents and their events: what a change of a name is, and the attributes that an event tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from kvwal.content.claim import claim_of, is_content
from kvwal.entry import DataEntry, Entry
from kvwal.structures.provenance.record import ATTRIBUTES, CONTENT, CREATE, DROP, Record


def changes_of_contents(before: Sequence[Entry | None], logged: Sequence[Entry]) -> list[Record]:
    """The events of contents: each name is an item of its own, whose content is the bytes, and not where they stand.

    Bytes that the background writes again, in another claim file, are no event.
    """
    by_type: dict[str, Record] = {}
    for old, new in zip(before, logged, strict=True):
        name = _type(old, new)
        if not name:
            continue
        record = by_type.setdefault(name, Record(name, True, [], []))
        if old is not None:
            record.before.append(old)
        if not new.deleted:
            record.after.append(new)
    return list(by_type.values())


def _type(old: Entry | None, new: Entry) -> str:
    if new.deleted:
        return DROP if old is not None else ""
    if old is None:
        return CREATE
    was, now = claim_of(old), claim_of(new)
    if (was.length, was.sha256) != (now.length, now.sha256):
        return CONTENT
    return ATTRIBUTES if was.attributes != now.attributes else ""


def attributes_of(entry: DataEntry) -> dict[str, str] | None:
    """The attributes of a content's entry, with the checksum of its bytes; None for an entry of another structure."""
    if not is_content(entry.key_class) or entry.deleted:
        return None
    claim = claim_of(entry)
    return {**claim.attributes, "sha256": claim.sha256}
