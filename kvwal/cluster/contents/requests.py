"""Requests of a client for contents: where the archive is, and changes of names. Any member answers them.

A client puts the bytes of a content into the archive, and then asks for the entry that names them. Before the put it hears the
time of a member, and it sends that time with the entry: bytes that were put too long ago are not named any more, because the
archive may have collected them (`kvwal_archive.layout.UNCLAIMED_MS`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvwal.content.claim import is_content
from kvwal.counted import counted
from kvwal.entry import Entry, make_decoder, make_entry
from kvwal.errors import ConfigError, ContentFailed
from kvwal.key_class import OWN_MAP, kind_of, structure_of
from kvwal_archive.layout import UNCLAIMED_MS

_HOUR_MS = 3600 * 1000
CLAIM_MS = UNCLAIMED_MS - _HOUR_MS
"""How long after its put a file may be named for the first time."""


class Begin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="content.Begin"):
    """Ask where the bytes of the contents of the business `map` go. The answer is a `Begun`."""

    map: str


class Begun(msgspec.Struct, array_like=True, frozen=True):
    """The archive of the members, as it may be shown, and the time of a member (unix ms).

    The archive has the registration of `log_id` for the log of `node`: so a client sees whether it reaches the same archive.
    """

    archive: str
    node: str
    log_id: str
    now_ms: int


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="content.Change"):
    """Change names of contents and keys of maps of the business `map`, all of them or none, if each guard is as it says.

    `entries` and `guards` are blocks of entries. Times of expiry are by a clock that showed `sent` (unix ms). `begun` is the
    `now_ms` of a `Begun` from before the put of the first file that is named here; 0 if none is. The answer is a `Changed`.
    """

    map: str
    entries: bytes
    guards: bytes
    sent: int
    begun: int = 0


class Changed(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of a `Change`, as that of a transaction is said, and its timestamp; 0 if the member does not know it."""

    outcome: str
    timestamp: int


ContentRequest = Begin | Change
encode = msgspec.msgpack.Encoder().encode
decode_begun = msgspec.msgpack.Decoder(Begun).decode
decode_changed = msgspec.msgpack.Decoder(Changed).decode
_decode_request = msgspec.msgpack.Decoder(ContentRequest).decode
decode_entries = make_decoder(())


def to_request(text: bytes) -> ContentRequest | None:
    """The request in a client's message; None if it is another one."""
    try:
        request: ContentRequest = _decode_request(text)
    except msgspec.ValidationError:
        return None
    return request


def entries_of_block(name: str, block: bytes, ahead_ms: int) -> list[Entry]:
    """The changes of a block of a client, whose clock this member's is `ahead_ms` of. `name` is that of the business.

    `ConfigError` for a change that is neither of a map nor of a content.
    """
    entries = [_moved_by(entry, ahead_ms) for entry in decode_entries(block)]
    if not all(_is_of_a_map(entry) or is_content(entry.key_class) for entry in entries):
        raise ConfigError(f"{name}: a block changes keys that are of no map and no content; nothing was written.")
    return entries


def changes_of(request: Change, now_ms: int) -> tuple[list[Entry], list[Entry]]:
    """The changes of a request and its guards, by the member's clock. Raises as `entries_of_block` and `check_claims`."""
    entries = entries_of_block(request.map, request.entries, now_ms - request.sent)
    guards = decode_entries(request.guards)
    if request.begun or not guards:  # else it names bytes that its guards name
        check_claims(request.map, entries, request.begun, now_ms)
    return entries, guards


def check_claims(name: str, entries: Iterable[Entry], begun_ms: int, now_ms: int) -> None:
    """Raise `ContentFailed` if these entries name a file that the archive may have collected: see `Change`."""
    if not any(is_content(entry.key_class) and not entry.deleted for entry in entries):
        return
    if now_ms - begun_ms > CLAIM_MS:
        raise ContentFailed(
            f"{name}: the bytes were put into the archive more than {counted(CLAIM_MS // _HOUR_MS, 'hour')} ago, and may be"
            " collected already; no name was written.",
            hint="Put the content again.",
        )


def _is_of_a_map(entry: Entry) -> bool:
    structure = structure_of(entry.key_class)
    return structure == OWN_MAP or kind_of(structure) == "map"


def _moved_by(entry: Entry, ahead_ms: int) -> Entry:
    """An entry whose time of expiry is by a clock that this member's clock is `ahead_ms` of."""
    if not entry.expires:
        return entry
    return make_entry(
        entry.key, entry.key_class, entry.value, entry.value_class, False, 0, max(1, entry.expires + ahead_ms)
    )
