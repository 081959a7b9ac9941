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
    left: dict[str, str] = {}
    """Who is on its record as one that left: name to address."""
    looked: bool = False
    """Its record names every node that has a log in the archive."""
    was_there: bool = False
    """Its root had a record of it when it started."""
    away: bool = False
    """It has recovered its logs, and the archive does not take their tails."""
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


def strangers(without: Collection[str], statuses: Collection[Status], registered: Collection[str] = ()) -> list[str]:
    """What of `without` is neither the name nor the address of a member that is or was on anybody's record, nor listed by
    anybody, nor the name of a log that is `registered` in the archive; sorted."""
    known = {word for status in statuses for pair in (status.expected | status.left).items() for word in pair}
    known |= {address for status in statuses for address in status.listed}
    return sorted(set(without) - known - set(registered))


def absent(statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """Members that are on record, or listed, and not there; sorted. `living` as in `missing`."""
    without = left_out(statuses)
    wanted = {name: address for status in statuses for name, address in status.expected.items()}
    addresses = {status.address for status in statuses}
    of_names = {wanted[name] for name in wanted if name not in living}
    found = {f"{name} ({wanted[name]})" for name in wanted if name not in living and not {name, wanted[name]} & without}
    return sorted(
        found
        | {address for status in statuses for address in status.listed if address not in addresses | without | of_names}
    )


def missing(statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """Members without whom memory would lack what only their logs hold, or that have not archived yet; sorted.

    `living` are the names of all members that are there, those included that have told nothing yet.
    """
    ready = {status.name for status in statuses if status.archived}
    unready = {f"{name} (recovers its logs)" for name in living if name not in ready}
    return sorted({*absent(statuses, living), *unready})


def is_away(statuses: Collection[Status], living: Collection[str]) -> bool:
    """Whether all that are expected are there with their logs recovered, and the archive is away for some: from others it may
    have taken their tails, but none is still at it."""
    done = {status.name for status in statuses if status.archived or status.away}
    return any(status.away for status in statuses) and set(living) <= done and not absent(statuses, living)


def unproved(statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """Why the disks of the `living`, who are all that are expected, may not hold all that was ever acknowledged. No reason if
    they do: if each of them is the disk that its member always had, and no other node ever had a log: none that was left out, and
    none in the archive, which somebody must have looked at.
    """
    found = [f"what {name} wrote is in the archive only" for name in sorted(left_out(statuses))]
    gone = {name for status in statuses for name in status.left} - set(living) - left_out(statuses)
    found += [f"what {name} wrote is in the archive only" for name in sorted(gone)]
    found += [
        f"the root of {status.name} has no record of it: what it wrote before may be in the archive only"
        for status in sorted(statuses, key=lambda status: status.name)
        if not status.was_there
    ]
    found += [f"{name} recovers its logs" for name in sorted(set(living) - {status.name for status in statuses})]
    if not any(status.looked for status in statuses):
        found.append("no member has seen yet which nodes have logs in the archive")
    return found


def unknown_to(name: str, statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """Members that have not yet put `name` on their record."""
    known = {status.name for status in statuses if name in status.expected}
    return sorted(set(living) - known - {name})
