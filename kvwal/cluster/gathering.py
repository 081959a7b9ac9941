"""Who is missing: decided from what the members that are there tell of themselves."""

from __future__ import annotations

from collections.abc import Collection

import msgspec


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a member tells the others. `member` is the number Hazelcast gave it at this start."""

    member: str
    name: str
    address: str
    expected: dict[str, str] = {}
    """The members on its record: name to address."""
    listed: list[str] = []
    """The addresses that it was told with --members."""
    without: list[str] = []
    """Names or addresses that its operator said will not come."""
    archived: bool = False
    """Its logs are recovered, and the archive holds their tails."""
    alone: bool = True
    """Nothing but its own logs was ever in its memory."""
    votes: int = 0
    """The version of the electorate that it goes by; 0 while it serves nobody."""
    failing: bool = False
    """A log of its takes no more writes, or its disk is full."""
    asks: int = 0
    """The number by which it asks all to archive what they have; 0 if it never did. A later one is greater."""
    answered: dict[str, int] = {}
    """Who asked, by which number, when this member archived last: the archive holds what its logs did then."""
    loading: bool = False
    """It fills the cluster's memory now: `entries` of `most` are there."""
    entries: int = 0
    most: int = 0
    eta_seconds: int = 0


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What the member that filled the memory tells everybody: it is whole, and whose logs count from now on."""

    by: str
    without: list[str] = []
    living: list[str] = []
    """The numbers of the members that were there, to the end."""
    newest: int = 0
    """The greatest timestamp of what was loaded: whatever is written comes after it."""


def left_out(statuses: Collection[Status]) -> set[str]:
    """Names and addresses for which not to wait: what the operators said, and by it the address that belongs to a name."""
    said = {word for status in statuses for word in status.without}
    known = [pair for status in statuses for pair in status.expected.items()]
    return said | {word for pair in known if said & set(pair) for word in pair}


def missing(statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """Members without whom memory would lack what only their logs hold, or that have not archived yet; sorted.

    `living` are the names of all members that are there, those included that have told nothing yet.
    """
    absent = left_out(statuses)
    wanted = {name: address for status in statuses for name, address in status.expected.items()}
    addresses = {status.address for status in statuses}
    of_names = {wanted[name] for name in wanted if name not in living}
    found = {f"{name} ({wanted[name]})" for name in wanted if name not in living and not {name, wanted[name]} & absent}
    found |= {
        address for status in statuses for address in status.listed if address not in addresses | absent | of_names
    }
    ready = {status.name for status in statuses if status.archived}
    return sorted(found | {f"{name} (recovers its logs)" for name in living if name not in ready})


def unknown_to(name: str, statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """Members that have not yet put `name` on their record."""
    known = {status.name for status in statuses if name in status.expected}
    return sorted(set(living) - known - {name})
