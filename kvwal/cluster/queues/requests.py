"""Requests of a client to the member that decides on the queues of a business, and the answers.

Each request names the business by its map in Hazelcast. A member that is asked twice with the same `Hold` gives the same items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kvwal.cluster.contents.requests import check_claims, entries_of_block
from kvwal.entry import Entry, make_entry
from kvwal.errors import TransactionClosed
from kvwal.structures.queue.positions import item_class

VISIBILITY_SECONDS = 30.0
"""The visibility timeout: how long an item stays with a taker that is silent. Clients tell of their blocks several times."""
OWNER_CLASS, OWNER_KEY = "owner:str", b"queues"
"""The identity of a business's owner record. It has a log. Every change of a queue is made only if the record is unchanged, and
changes it."""
MOST_CLASS_BYTES = 127
"""The longest class of a key that Hazelcast's form of a key has room for."""
BROWSE_BYTES, BROWSE_ITEMS = 4 << 20, 1_000
"""A page of a `Browse` ends when its values have that many bytes, or its items are that many."""


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag=True):
    map: str


class PutItem(msgspec.Struct, array_like=True, frozen=True):
    """An item to put. It expires `left_ms` after the member gets it; 0 for never."""

    structure: str
    priority: int
    value: bytes
    value_class: str
    left_ms: int = 0


class Item(msgspec.Struct, array_like=True, frozen=True):
    """An item as a member sends it. `expires` is by the member's clock (unix ms), in `left_ms` from now; 0 for never.

    `deliveries` is how often it was given back.
    """

    key: bytes
    value: bytes
    value_class: str
    expires: int = 0
    left_ms: int = 0
    deliveries: int = 0


class Put(_Request, frozen=True):
    """Put items, in one transaction. The answer is its timestamp, an int. `delays` are in ms, by the index of the item.

    `QueueFull` if there is no room now.
    """

    items: list[PutItem]
    delays: dict[int, int] = {}


class Take(_Request, frozen=True):
    """Take up to `most` items. The answer is a list of `Item`, empty if there is none.

    It is refused if the codec of an item is not among `known`, unless that is None.
    """

    structure: str
    most: int
    known: list[str] | None


class Purge(_Request, frozen=True):
    """Take up to `most` items away, the delayed ones last. The answer is how many."""

    structure: str
    most: int


class Await(_Request, frozen=True):
    """Wait up to `seconds`, or less, for an item. The answer says whether one can be taken."""

    structure: str
    seconds: float


class Hold(_Request, frozen=True):
    """As `Take`, for a block: the items are in flight until the block ends, or says nothing for `visibility` seconds.

    `number` counts the takes of the block: a request that is sent again gets what it got.
    """

    structure: str
    most: int
    known: list[str] | None
    block: str
    number: int
    visibility: float


class Renew(_Request, frozen=True):
    """Say that a block goes on. The answer says whether its items are still its own, a bool."""

    block: str


class GiveBack(_Request, frozen=True):
    """End a block: its items are at their old places again. With a `number`, one take of it only.

    With `counts` it is a delivery of each item, where the options of a queue have that counted. The answer is None, or why that
    could not be written.
    """

    block: str
    number: int | None = None
    counts: bool = False


class Commit(_Request, frozen=True):
    """Commit a block: take its items away for good, put others, and change entries of maps and contents, in one transaction.

    `taken` are the keys of the items by their structures. `entries` is a block of entries, whose times of expiry are by a clock
    that showed `sent` (unix ms). The answer is the timestamp, an int. `delays`, and `QueueFull`: see `Put`. `begun`: see
    `kvwal.cluster.contents.requests.Change`.
    """

    block: str
    taken: list[tuple[str, bytes]]
    items: list[PutItem]
    entries: bytes
    sent: int
    delays: dict[int, int] = {}
    begun: int = 0


class PutBack(_Request, frozen=True):
    """Put items that were taken at their old places, in one transaction. The answer is its timestamp, an int."""

    structure: str
    items: list[Item]


class Browse(_Request, frozen=True):
    """The items behind the key `after` that can be taken, in order: a page of them. The answer is a list of `Item`."""

    structure: str
    after: bytes
    most: int


class Count(_Request, frozen=True):
    """The answer is four numbers: of items that can be taken, of items in flight, of requests that wait for an item or for room,
    and of items that are delayed.
    """

    structure: str


class AwaitRoom(_Request, frozen=True):
    """Wait until the queue has room for `items` more items of together `size` bytes. The member answers after `seconds` at the
    latest, and says whether a put is worth it.
    """

    structure: str
    items: int
    size: int
    seconds: float


class Options(_Request, frozen=True):
    """The answer is the options of a queue as they are stored, a JSON object as bytes; empty if none is set."""

    structure: str


class SetOptions(_Request, frozen=True):
    """Store these options, in one transaction; None clears one. The answer is that of `Options`, after it."""

    structure: str
    changes: dict[str, Any]


class Queues(_Request, frozen=True):
    """The answer is the list of the structures that have items."""


QueueRequest = (
    Put | Take | Purge | Await | Hold | Renew | GiveBack | Commit | PutBack | Browse | Count | Queues | AwaitRoom | Options
    | SetOptions
)  # fmt: skip

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(QueueRequest).decode
decode_items = msgspec.msgpack.Decoder(list[Item]).decode
decode_answer: Any = msgspec.msgpack.Decoder().decode


def to_request(text: bytes) -> QueueRequest | None:
    """The request in a client's message; None if it is one for the logs."""
    try:
        request: QueueRequest = decode_request(text)
    except msgspec.ValidationError:
        return None
    return request


def to_items(entries: list[Entry], now_ms: int, deliveries: Callable[[Entry], int]) -> list[Item]:
    """Entries as a member sends them at this time of its clock. `deliveries` says how often each was given back."""
    return [
        Item(e.key, e.value, e.value_class, e.expires, max(1, e.expires - now_ms) if e.expires else 0, deliveries(e))
        for e in entries
    ]


def to_entries(items: list[Item], structure: str, now_ms: int) -> list[Entry]:
    """Items that a client sends, as entries, at this time of the member's clock."""
    key_class = item_class(structure)
    return [
        make_entry(i.key, key_class, i.value, i.value_class, False, 0, now_ms + i.left_ms if i.left_ms else 0)
        for i in items
    ]


def entries_of_commit(request: Commit, now_ms: int) -> list[Entry]:
    """The changes of maps and contents of a commit, with times of expiry by the member's clock. `ConfigError` for any other
    change, `ContentFailed` for contents whose bytes were put too long ago.
    """
    entries = entries_of_block(request.map, request.entries, now_ms - request.sent)
    check_claims(request.map, entries, request.begun, now_ms)
    return entries


def unknown_codec(known: list[str] | None, entries: list[Entry]) -> str | None:
    """The first codec of these items that the client does not have; None if it has all, or wants no value."""
    if known is None:
        return None
    names = frozenset(known)
    return next((entry.value_class for entry in entries if entry.value_class not in names), None)


def claims_lost(name: str) -> TransactionClosed:
    """The error of a block whose items are not its own any more."""
    return TransactionClosed(
        f"{name}: the items of this block are back in their queues: it was silent for longer than its visibility timeout"
        f" ({VISIBILITY_SECONDS:g} s), or all members were started again; nothing of the block was written.",
        hint="Take again. Another taker may have the items by now.",
    )
