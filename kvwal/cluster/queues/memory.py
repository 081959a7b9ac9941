"""Memory of the queues of a business, as the member that decides on them asks for it: items, and the claims of takers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from kvwal.cluster.queues.requests import OWNER_CLASS, OWNER_KEY
from kvwal.cluster.queues.table import Claim
from kvwal.entry import Entry

DONE, REFUSED = "DONE", "REFUSED"
"""Outcomes of a commit. After any other one nothing was written, and it may be tried again."""


class OwnerRecord(msgspec.Struct, frozen=True):
    """Which owner of the queues of a business is the last one, counted from 1, and the last position that it drew.

    Each transaction draws a position, so each has another record. `held` says that blocks may have items by claims in memory.
    """

    epoch: int = 0
    position: int = 0
    held: bool = False

    def entry(self) -> Entry:
        """The entry of the record."""
        return Entry(OWNER_KEY, OWNER_CLASS, msgspec.json.encode(self), "json", False, 0)

    @classmethod
    def of(cls, entry: Entry) -> OwnerRecord:
        """The record of an entry. A delete stands for the record before the first owner."""
        return cls() if entry.deleted else msgspec.json.decode(entry.value, type=cls)


class Claims(msgspec.Struct, array_like=True, frozen=True):
    """The takes of one block, as the members keep them."""

    takes: dict[int, list[Claim]]
    visibility: float


class Commit(NamedTuple):
    """What became of a commit. `timestamp` is 0 if it is not known."""

    outcome: str
    timestamp: int


class KeptBlock(NamedTuple):
    """A block, as the owner of an epoch kept it."""

    epoch: int
    block: str
    claims: Claims


class QueueMemory(Protocol):
    """The memory of one business's queues, for one owner. Every call may wait for other members.

    Calls that change nothing raise `ClusterUnreachable` and `NotRecovered`.
    """

    name: str
    """The map of the business."""

    def begin(self) -> bool:
        """Note that this owner decides. Returns whether memory had another one: if not, it has no claim of a taker either."""
        ...

    def is_owner(self) -> bool:
        """Whether no other owner has begun to decide since."""
        ...

    def record(self) -> Entry:
        """The owner record of the business; a delete if there was no owner yet."""
        ...

    def keys(self) -> list[Claim]:
        """The identities of all entries of the queues of the business: items, options, and deliveries of items."""
        ...

    def entries(self, claims: list[Claim]) -> list[Entry]:
        """Those of the items that are there, in this order. Their timestamps are 0."""
        ...

    def commit(self, entries: list[Entry], guard: Entry) -> Commit:
        """Make all changes, if the owner record is still `guard`. After every error but `CommitUnknown` nothing was written.

        The record has to be among the changes. It is changed last, and until then no other transaction can change it: an owner
        that has changed it sees all of the transactions before.
        """
        ...

    def claim(self, epoch: int, block: str, claims: Claims) -> bool:
        """Keep the takes of a block, so that the next owner has them. False if another owner decides already.

        `epoch` is that of the owner: what an earlier owner keeps, or releases late, is its own.
        """
        ...

    def release(self, epoch: int, block: str) -> None:
        """Keep nothing of a block of this epoch any more."""
        ...

    def blocks(self) -> list[KeptBlock]:
        """The blocks that all owners kept, those of the last owner first."""
        ...
