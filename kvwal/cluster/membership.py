"""Membership record: each root remembers the members of the cluster whose logs count.

After the loss of all members no member can be asked for the others. So a member may write only once it is on the record of every
other member, durably, and a member that starts again knows for which members to wait.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path

import msgspec

from kvwal.cluster.bootstrap import Status, excluded_members
from kvwal.errors import ConfigError, LogFailed, NewerVersion
from kvwal.log.appender import storage_full
from kvwal.log.files.atomic_file import write_file
from kvwal.ports.disk import Disk
from kvwal.ports.tasks import Workers
from kvwal_archive.layout import check_name

FORMAT = 1
FOLDER = "_members"


class MembershipRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one node. `members` maps names to addresses, this node's own included.

    `alone`: memory never had entries of another node's log, so this node's logs are enough to fill it again.
    `apart`: since when, in unix ms, an expected member may have been out of sight; 0 while all are there.
    `left` are nodes that were members once, or have a log in the archive, and are not expected any more: name to address, as far
    as known. `looked`: the archive was read, and then every node with a log in it was in `members` or `left`. Nodes that joined
    since are in `members`.
    """

    format: int = FORMAT
    members: dict[str, str] = {}
    alone: bool = True
    apart: int = 0
    left: dict[str, str] = {}
    looked: bool = False


class MembershipFile:
    """The file of a node's record."""

    def __init__(self, disk: Disk, root: Path, namespace: str, cluster: str, node: str) -> None:
        self._disk = disk
        self._folder = root / check_name("namespace", namespace) / check_name("cluster", cluster) / FOLDER
        self._path = self._folder / f"{check_name('node', node)}.json"

    def read(self) -> MembershipRecord | None:
        """The record, None if there is none. `ConfigError` if the file is damaged, `NewerVersion` if a newer version wrote it."""
        if not self._disk.exists(self._path):
            return None
        try:
            record = msgspec.json.decode(self._disk.read(self._path), type=MembershipRecord)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self._path}: who the members are cannot be read ({error}).",
                hint="Put the file of another member in its place: every member has the same, but for its name.",
            ) from error
        if record.format > FORMAT:
            raise NewerVersion(f"{self._path} was written by a newer version.", hint="Upgrade kvwal.")
        return record

    def write(self, record: MembershipRecord) -> None:
        """Returns when the record is durable; a crash leaves the old one or the new one. `StorageFull` or `LogFailed` if the disk
        refuses it."""
        try:
            self._disk.make_folders(self._folder)
            write_file(self._disk, self._path, [msgspec.json.encode(record)])
        except OSError as error:
            raise storage_full(self._folder, error) or LogFailed(
                f"{self._path}: who the members are cannot be written ({error}).",
                hint="Mend the disk, or let the node's user write there; then start the node again.",
            ) from error


class LocalMembership:
    """The record of a running node. Used on the node's event loop. `was_there`: the root had a record of this node at its start,
    so its logs are all that it ever wrote, unless somebody changed the disk."""

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
        """The known members: name to address."""
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
        """Note that these are the members, as far as is known. The next `keep` writes them down."""
        self._known = self._with(members)

    async def keep(self, statuses: Collection[Status]) -> None:
        """Returns when every member that published its status is on the record. A member publishes it once it is accepted, so no
        start waits for a member that was refused.

        A member that an operator left out (--without) goes off the record, unless it is there: its entries are in the logs of
        others, or are given up.
        """
        gone = excluded_members(statuses)
        members = {name: at for name, at in self.members.items() if not {name, at} & gone}
        members |= {status.name: status.address for status in statuses} | self._own
        alone = self.alone and len(members) == 1
        left = {name: at for status in statuses for name, at in status.left.items()}
        looked = self.looked or any(status.looked for status in statuses)
        await self._write(msgspec.structs.replace(self._with(members, left), alone=alone, looked=looked))
        self.alone = alone

    async def note_registered(self, nodes: Collection[str]) -> None:
        """Put on record, durably, that these nodes have logs in the archive, and no others."""
        known = self._with(self.members, dict.fromkeys(nodes, ""))
        await self._write(msgspec.structs.replace(known, looked=True))

    async def note_apart(self, since: int) -> None:
        """Put `apart` on record, durably. See `MembershipRecord`."""
        if since != self.apart:
            await self._write(msgspec.structs.replace(self._known, apart=since))

    def _with(self, members: dict[str, str], also_left: dict[str, str] | None = None) -> MembershipRecord:
        """The record with these members; `also_left` are members that left, as the others know them."""
        known = (also_left or {}) | self._known.left | self._known.members
        left = {name: at for name, at in sorted(known.items()) if name not in members}
        return msgspec.structs.replace(self._known, members=dict(sorted(members.items())), left=left)

    async def _write(self, record: MembershipRecord) -> None:
        if record != self._written:
            await self._workers.run(partial(self._file.write, record))
            self._written = record
        self._known = record
