"""What a root remembers of the cluster: the members whose logs count, durably, before any of them takes a write.

After the loss of all members nobody can be asked who they were. A member that is not on record at every other one may not
write yet: so whoever starts again knows whom to wait for.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from archive.layout import check_name
from kvwal.errors import ConfigError, NewerVersion
from kvwal.log.names import partial_name
from kvwal.ports.disk import Disk

FORMAT = 1
FOLDER = "_members"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One node's record. `members` maps names to addresses, this node's own included.

    `alone` while nothing but this node's own logs was ever in memory: then they are enough to fill it again.
    `apart` is since when, in milliseconds, an expected member may have been out of sight; 0 while all are there.
    """

    format: int = FORMAT
    members: dict[str, str] = {}
    alone: bool = True
    apart: int = 0


class RecordFile:
    """Where a node's record stands."""

    def __init__(self, disk: Disk, root: Path, namespace: str, cluster: str, node: str) -> None:
        self._disk = disk
        self._folder = root / check_name("namespace", namespace) / check_name("cluster", cluster) / FOLDER
        self._path = self._folder / f"{check_name('node', node)}.json"

    def read(self) -> Record | None:
        """The record, None if there is none. `ConfigError` if the file is none that this version wrote."""
        if not self._disk.exists(self._path):
            return None
        try:
            found = msgspec.json.decode(self._disk.read(self._path), type=Record)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self._path}: who the members are cannot be read ({error}).",
                hint="Put the file of another member in its place: every member has the same, but for its name.",
            ) from error
        if found.format > FORMAT:
            raise NewerVersion(f"{self._path} was written by a newer version.", hint="Upgrade kvwal.")
        return found

    def write(self, record: Record) -> None:
        """Returns when the record is durable; a crash leaves the old one or the new one."""
        self._disk.make_folders(self._folder)
        partial = self._folder / partial_name(self._path.name)
        with suppress(FileNotFoundError):
            self._disk.unlink(partial)
        file = self._disk.create(partial)
        try:
            file.write_at(0, [msgspec.json.encode(record)])
            file.datasync()
        finally:
            file.close()
        self._disk.rename(partial, self._path)
        self._disk.sync_folder(self._folder)
