"""Bootstrap rules: which members are missing before memory may be filled. Pure functions: published statuses in, verdict out."""

from __future__ import annotations

from collections.abc import Collection

import msgspec


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status that a member publishes. `member` is the UUID that Hazelcast gave it at this start."""

    member: str
    name: str
    address: str
    expected: dict[str, str] = {}
    """The members on its record: name to address."""
    listed: list[str] = []
    """The addresses of its option --members."""
    without: list[str] = []
    """Names or addresses of its option --without: members that the operator excludes."""
    left: dict[str, str] = {}
    """The members on its record that left: name to address."""
    looked: bool = False
    """Its record names every node that has a log in the archive."""
    was_there: bool = False
    """At its start, its data directory already had its membership record."""
    away: bool = False
    """Its logs are recovered, and the archive could not be read, or has no space, to take their tails."""
    archived: bool = False
    """Its logs are recovered, and the archive holds their tails."""
    alone: bool = True
    """Its memory never had entries of another node's log."""
    votes: int = 0
    """The version of the quorum that it uses; 0 before it has one."""
    failing: bool = False
    """One of its logs takes no more writes, or its disk is full."""
    data_bytes: int = 0
    """Approximate bytes of the entries whose partitions it owns, without backups."""
    room_bytes: int = 0
    """Heap bytes available to maps; 0 if unknown."""
    asks: int = 0
    """The number of its last request to all members to archive; 0 if it never asked. Later numbers are greater."""
    answered: dict[str, int] = {}
    """The requests that it has answered: name of the asking member to number. The archive has what its logs held then."""
    loading: bool = False
    """It fills the cluster's memory now: `entries` of at most `most` are loaded."""
    entries: int = 0
    most: int = 0
    eta_seconds: int = 0


class FilledMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The message that memory is whole, from `by`, which filled it. The logs of the members in `without` do not count."""

    by: str
    without: list[str] = []
    living: list[str] = []
    """The UUIDs of the members that were there until memory was whole."""
    newest: int = 0
    """The greatest timestamp that was loaded. Every later write gets a greater one."""


def excluded_members(statuses: Collection[Status]) -> set[str]:
    """Names and addresses of the members that --without excludes. If it gives the name or the address of a member on record, the
    set has both."""
    said = {named for status in statuses for named in status.without}
    known = [pair for status in statuses for pair in status.expected.items()]
    return said | {either for pair in known if said & set(pair) for either in pair}


def killed_without(statuses: Collection[Status]) -> list[str]:
    """Names of the members that --without excludes and that did not leave in order, sorted: their disks are lost.

    Addresses that --without excludes are among them. A caller looks logs up by name, so an address matches none.
    """
    left = {name for status in statuses for name in status.left} | {status.name for status in statuses}
    return sorted(excluded_members(statuses) - left)


def unknown_names(
    without: Collection[str], statuses: Collection[Status], registered: Collection[str] = ()
) -> list[str]:
    """The entries of `without` that no member knows, sorted. Known are the names and addresses on the members' records, the
    addresses of their --members, and the names of the logs that are `registered` in the archive."""
    known = {either for status in statuses for pair in (status.expected | status.left).items() for either in pair}
    known |= {address for status in statuses for address in status.listed}
    return sorted(set(without) - known - set(registered))


def absent(statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """The members on record, or in a --members, that are not there; sorted. `living` as in `missing`."""
    without = excluded_members(statuses)
    wanted = {name: address for status in statuses for name, address in status.expected.items()}
    addresses = {status.address for status in statuses}
    of_names = {wanted[name] for name in wanted if name not in living}
    lacking = {
        f"{name} ({wanted[name]})" for name in wanted if name not in living and not {name, wanted[name]} & without
    }
    return sorted(
        lacking
        | {address for status in statuses for address in status.listed if address not in addresses | without | of_names}
    )


def missing(statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """The members that are absent, or have not archived their logs yet; sorted. Only their logs may hold some entries.

    `living` are the names of all members that are present, also of members that have published no status yet.
    """
    ready = {status.name for status in statuses if status.archived}
    unready = {f"{name} (recovers its logs)" for name in living if name not in ready}
    return sorted({*absent(statuses, living), *unready})


def archive_is_unreachable(statuses: Collection[Status], living: Collection[str]) -> bool:
    """Whether every expected member is present with recovered logs, and at least one of them cannot reach the archive. The tails
    of the other members may already be archived."""
    done = {status.name for status in statuses if status.archived or status.away}
    return any(status.away for status in statuses) and set(living) <= done and not absent(statuses, living)


def why_disks_may_lack_writes(statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """The reasons why the disks of the `living` members may not hold all acknowledged writes; empty if they do.

    The disks hold them if each is the disk that its member always had, and no other node ever had a log: none that was left out,
    and none in the archive, as a member has seen. The `living` are all expected members.
    """
    doubts = [f"what {name} wrote is in the archive only" for name in sorted(excluded_members(statuses))]
    gone = {name for status in statuses for name in status.left} - set(living) - excluded_members(statuses)
    doubts += [f"what {name} wrote is in the archive only" for name in sorted(gone)]
    doubts += [
        f"the root of {status.name} has no record of it: what it wrote before may be in the archive only"
        for status in sorted(statuses, key=lambda status: status.name)
        if not status.was_there
    ]
    doubts += [f"{name} recovers its logs" for name in sorted(set(living) - {status.name for status in statuses})]
    if not any(status.looked for status in statuses):
        doubts.append("no member has seen yet which nodes have logs in the archive")
    return doubts


def unknown_to(name: str, statuses: Collection[Status], living: Collection[str]) -> list[str]:
    """The `living` members that have not yet put `name` on their record, sorted."""
    known = {status.name for status in statuses if name in status.expected}
    return sorted(set(living) - known - {name})
