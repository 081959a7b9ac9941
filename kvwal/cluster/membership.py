"""What a root remembers of the cluster: the members whose logs count, durably, before any of them takes a write.

After the loss of all members nobody can be asked who they were. A member that is not on record at every other one may not
write yet: so whoever starts again knows whom to wait for.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path

import msgspec

from archive.layout import check_name
from kvwal.cluster.bootstrap import Status, left_out
from kvwal.errors import ConfigError, NewerVersion
from kvwal.log.files.atomic_file import write_file
from kvwal.ports.disk import Disk
from kvwal.ports.tasks import Workers

FORMAT = 1
FOLDER = "_members"


class MembershipRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One node's record. `members` maps names to addresses, this node's own included.

    `alone` while nothing but this node's own logs was ever in memory: then they are enough to fill it again.
    `apart` is since when, in milliseconds, an expected member may have been out of sight; 0 while all are there.
    `left` are names that were members once, or have a log in the archive, and are not expected any more: with their addresses,
    as far as known. `looked`: of the logs in the archive none was of a node that is neither in `members` nor in `left`, when that
    was looked at; whoever joined since is in `members`.
    """

    format: int = FORMAT
    members: dict[str, str] = {}
    alone: bool = True
    apart: int = 0
    left: dict[str, str] = {}
    looked: bool = False


class MembershipFile:
    """Where a node's record stands."""

    def __init__(self, disk: Disk, root: Path, namespace: str, cluster: str, node: str) -> None:
        self._disk = disk
        self._folder = root / check_name("namespace", namespace) / check_name("cluster", cluster) / FOLDER
        self._path = self._folder / f"{check_name('node', node)}.json"

    def read(self) -> MembershipRecord | None:
        """The record, None if there is none. `ConfigError` if the file is none that this version wrote."""
        if not self._disk.exists(self._path):
            return None
        try:
            found = msgspec.json.decode(self._disk.read(self._path), type=MembershipRecord)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self._path}: who the members are cannot be read ({error}).",
                hint="Put the file of another member in its place: every member has the same, but for its name.",
            ) from error
        if found.format > FORMAT:
            raise NewerVersion(f"{self._path} was written by a newer version.", hint="Upgrade kvwal.")
        return found

    def write(self, record: MembershipRecord) -> None:
        """Returns when the record is durable; a crash leaves the old one or the new one."""
        self._disk.make_folders(self._folder)
        write_file(self._disk, self._path, [msgspec.json.encode(record)])


class LocalMembership:
    """A node's record while it runs. Used on the node's event loop. `was_there`: the root had a record of this node when it
    started, so that its logs are all that it ever wrote, unless somebody changed the disk."""

    def __init__(self, file: MembershipFile, workers: Workers, name: str, address: str, *, alone: bool) -> None:
        """`alone`: no other node ever had a log of this cluster."""
        self._file = file
        self._workers = workers
        self._own = {name: address}
        self._written = file.read()
        self._known = self._written or MembershipRecord(alone=alone)
        self.alone = alone
        self.was_there = self._written is not None and name in self._written.members

    @property
    def members(self) -> dict[str, str]:
        """All that are known: name to address."""
        return self._known.members

    @property
    def left(self) -> dict[str, str]:
        """See `MembershipRecord`."""
        return self._known.left

    @property
    def looked(self) -> bool:
        """See `MembershipRecord`."""
        return self._known.looked

    @property
    def apart(self) -> int:
        """See `MembershipRecord`."""
        return self._known.apart

    def expect(self, members: dict[str, str]) -> None:
        """These are the members, as far as is known; the next `keep` writes it down."""
        self._known = self._with(members)

    async def keep(self, statuses: Collection[Status]) -> None:
        """Whoever told its status is on the record when this returns: it tells once it knows that it can be a member, and one
        that is refused is not waited for ever after.

        Whom an operator left out goes, unless it is there: what it had is in others' logs, or is given up.
        """
        gone = left_out(statuses)
        members = {name: at for name, at in self.members.items() if not {name, at} & gone}
        members |= {status.name: status.address for status in statuses} | self._own
        alone = self.alone and len(members) == 1
        told = {name: at for status in statuses for name, at in status.left.items()}
        looked = self.looked or any(status.looked for status in statuses)
        await self._write(msgspec.structs.replace(self._with(members, told), alone=alone, looked=looked))
        self.alone = alone

    async def note_registered(self, nodes: Collection[str]) -> None:
        """Durably: these nodes have logs in the archive, and no others."""
        known = self._with(self.members, dict.fromkeys(nodes, ""))
        await self._write(msgspec.structs.replace(known, looked=True))

    async def note_apart(self, since: int) -> None:
        """Durably. See `MembershipRecord`."""
        if since != self.apart:
            await self._write(msgspec.structs.replace(self._known, apart=since))

    def _with(self, members: dict[str, str], told: dict[str, str] | None = None) -> MembershipRecord:
        """What is known, with these members; `told` are others' names of those that left."""
        known = (told or {}) | self._known.left | self._known.members
        left = {name: at for name, at in sorted(known.items()) if name not in members}
        return msgspec.structs.replace(self._known, members=dict(sorted(members.items())), left=left)

    async def _write(self, record: MembershipRecord) -> None:
        if record != self._written:
            await self._workers.run(partial(self._file.write, record))
            self._written = record
        self._known = record
