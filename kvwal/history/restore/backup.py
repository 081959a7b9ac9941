"""Backup of a root: a copy of each log, whole at one moment, made without locks while other processes write.

Sealed segments and parts of a snapshot never change, and a file with two names is never written in place, so they are linked; on
another disk they are copied. Of the segment that is written to, the valid blocks are copied. A log is copied when its folder had
the same files before and after: no segment was begun or dropped meanwhile, and the copy is the log as it was when the last
segment was read. Else what is missing is copied in another try. Files are read, not mapped: a file that is cut while it is mapped
would end the process.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from kvwal.config import check_folder
from kvwal.content.transfer import give_claim_files
from kvwal.errors import ConfigError, CorruptLog, KvwalError, Overloaded
from kvwal.log.appender import storage_full
from kvwal.log.files.atomic_file import copy_file, link_file, write_file
from kvwal.log.files.names import (
    EVENT_FILES,
    OVERFLOW,
    RETIRED,
    find_places,
    log_folder,
    overflow_number,
    parse_event_file,
)
from kvwal.log.overflow.read import open_segment
from kvwal.log.reader import entry_decoder, log_files
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.ports.disk import Disk, Lock
from kvwal.ports.space import DiskSpace
from kvwal_archive.layout import Place

_TRIES = 100
_STAGE, _LOCK = ".backup", ".lock"
"""Ends of the names, beside the target, of the folder in which a backup is built, and of that folder's lock file."""


class BackupReport(NamedTuple):
    """A backup: its folder, the number of its logs, and how many of their files were linked and copied."""

    folder: str
    logs: int
    linked: int
    copied: int


def backup(
    disk: Disk, root: Path, folder: str | Path, clock: Clock = SYSTEM, reserve: int | None = None
) -> BackupReport:
    """Copy all logs under `root` into `folder`, which becomes a root. It must be new or empty, and not inside `root`.

    The copy is built beside `folder`, in a folder that no other backup uses, made durable, and renamed to it at the end. A backup
    that was killed can be run again. Of several backups to one folder at once, the first that ends has it. Copies leave `reserve`
    bytes of their disk free (None: the default of a store).

    Raises `ConfigError` if a folder cannot be used, `StorageFull`, `CorruptLog` for a damaged last segment, `Overloaded` if a log
    on another disk changes faster than it can be copied.
    """
    target = check_folder("folder", folder)
    _check(disk, root, target)
    try:
        disk.make_folders(target.parent)
        _remove_abandoned(disk, target)
        copy = _Copy(disk, reserve)
        with _stage(disk, target, clock) as stage:
            logs = _copy_all(disk, root, stage, copy)
            disk.rename(stage, target)
            disk.sync_folder(target.parent)
    except OSError as error:
        raise _not_copied(target, error) from error
    return BackupReport(str(target), logs, copy.linked, copy.copied)


def _copy_all(disk: Disk, root: Path, stage: Path, copy: _Copy) -> int:
    """Copy all logs and all ends of retired logs. Returns the number of logs.

    A log can be retired, and come back, meanwhile. At each moment it has its files or its end. So the ends are copied before the
    logs and after them, and the logs are listed twice. An end beside the files of its log is ignored.
    """
    done: set[Place] = set()
    for is_last in (False, False, True):
        for ends in _folders_of_ends(disk, root):
            copy.ends(ends, stage / ends.relative_to(root))
        for place in () if is_last else find_places(disk, root):
            if place not in done:
                copy.log(log_folder(root, place), log_folder(stage, place))
                done.add(place)
    return len(done)


def _check(disk: Disk, root: Path, target: Path) -> None:
    if not disk.is_folder(root):
        raise ConfigError(f"{root}: there is no such folder.", hint="Name the folder of a store.")
    if disk.exists(target) and (not disk.is_folder(target) or disk.names(target)):
        raise _taken(target)
    if target.resolve().is_relative_to(root.resolve()):
        raise ConfigError(f"{target} is inside {root}; nothing was copied.", hint="Name a folder outside of the root.")


@contextmanager
def _stage(disk: Disk, target: Path, clock: Clock) -> Iterator[Path]:
    """A new folder beside `target`, to be renamed. Its lock file keeps other backups from deleting it."""
    stage = target.with_name(f".{target.name}.{clock.random_bits(64):016x}{_STAGE}")
    lock_file = stage.with_name(stage.name + _LOCK)
    lock = _locked(disk, lock_file)
    try:
        disk.make_folders(stage)
        yield stage
    finally:
        with suppress(OSError):
            disk.remove_tree(stage)  # after an error, of any kind: it would keep the files of the store that it links
            disk.unlink(lock_file)
        if lock is not None:
            lock.release()


def _remove_abandoned(disk: Disk, target: Path) -> None:
    """Delete what killed backups to `target` left. The folder of a backup that is running is locked, and stays."""
    kind = re.compile(rf"(\.{re.escape(target.name)}\.[0-9a-f]{{16}}{re.escape(_STAGE)})({re.escape(_LOCK)})?")
    stages = {found[1] for found in map(kind.fullmatch, disk.names(target.parent)) if found}
    for stage in (target.with_name(name) for name in sorted(stages)):
        lock_file = stage.with_name(stage.name + _LOCK)
        if (lock := _locked(disk, lock_file)) is not None:
            disk.remove_tree(stage)
            disk.unlink(lock_file)
            lock.release()


def _locked(disk: Disk, path: Path) -> Lock | None:
    """The lock of a lock file; None if another backup holds it, or the file system has no locks."""
    with suppress(OSError):
        lock = disk.lock(path, "a backup")
        return None if isinstance(lock, str) else lock
    return None


def _folders_of_ends(disk: Disk, root: Path) -> Iterator[Path]:
    """The folders that hold the ends of retired logs: a log that goes on there must continue its numbers."""
    for namespace in disk.names(root):
        if namespace[0] in "_.":
            continue
        for cluster in disk.names(root / namespace):
            ends = root / namespace / cluster / RETIRED
            yield from (ends / node for node in disk.names(ends))


class _Copy:
    """The copying of files, and the number of files that were linked and copied."""

    def __init__(self, disk: Disk, reserve: int | None) -> None:
        self._disk = disk
        self._reserve = reserve
        self.linked = 0
        self.copied = 0

    def log(self, source: Path, target: Path) -> None:
        """Copy the log in `source`. A log without files is an empty folder."""
        self._disk.make_folders(target)
        give_claim_files(
            self._disk, source, target, self._claim_file, closed=True
        )  # before the log: later they may be gone
        moving: KvwalError | None = None
        last = ""
        for _ in range(_TRIES):
            before = _names(self._disk, source)
            if last:
                self._disk.unlink(target / last)  # it may have been written to since
            last = max((name for name in before if name.endswith(".wal")), default="")
            try:
                self._once(source, target, before, last)
                give_claim_files(self._disk, source, target, self._claim_file)  # after it: what it names is written
            except FileNotFoundError:
                continue
            except CorruptLog as error:
                moving = error  # or a group that was being written while it was read
                continue
            if _names(self._disk, source) == before:
                self._disk.sync_folder(target)
                return
        raise moving or Overloaded(
            f"{source}: the log changes faster than it can be copied; nothing was copied.",
            hint="Back up to a folder on the same disk, whose files are linked, or while less is written.",
        )

    def _once(self, source: Path, target: Path, names: list[str], last: str) -> None:
        for name in set(_names(self._disk, target)) - set(names):
            self._disk.unlink(target / name)
        new = [name for name in names if name != last and not self._disk.exists(target / name)]
        left = [name for name in new if not self._linked(source / name, target / name)]
        self._check_room(target, sum(self._disk.size(source / name) for name in left))
        for name in left:
            self._copied(source / name, target / name)
        ends = self._last(source / last, target / last) if last else 0
        self._overflow(source / OVERFLOW, target / OVERFLOW, ends)
        # Last: what was in segments when they were listed may be in files of events since.
        names_of_events = {name for name in self._disk.names(source / EVENT_FILES) if parse_event_file(name)}
        self._folder(source / EVENT_FILES, target / EVENT_FILES, names_of_events)

    def _overflow(self, source: Path, target: Path, ends: int) -> None:
        """Copy the overflow files that the copied segments name, which end before the sequence `ends`. Later ones may still be
        replaced.
        """
        names = {name for name in self._disk.names(source) if (overflow_number(name) or ends) < ends}
        self._folder(source, target, names)

    def _folder(self, source: Path, target: Path, names: set[str]) -> None:
        """Bring a folder in the copy to these files, which never change."""
        for name in set(self._disk.names(target)) - names:
            self._disk.unlink(target / name)
        left = sorted(names - set(self._disk.names(target)))
        if not left:
            return
        self._disk.make_folders(target)
        left = [name for name in left if not self._linked(source / name, target / name)]
        self._check_room(target, sum(self._disk.size(source / name) for name in left))
        for name in left:
            self._copied(source / name, target / name)
        self._disk.sync_folder(target)

    def _last(self, source: Path, target: Path) -> int:
        """Copy the valid blocks of the segment that may be written to. Returns the sequence after its last entry."""
        data = self._disk.read(source)
        reader = open_segment(self._disk, source, data)
        for _ in reader.entries(entry_decoder()):
            pass
        reader.check_ending(data, last=True)
        valid = data if reader.seal is not None else data[: reader.end]
        self._check_room(target.parent, len(valid))
        write_file(self._disk, target, [valid])
        self.copied += 1
        return reader.next_sequence

    def ends(self, source: Path, target: Path) -> None:
        """Copy the ends of retired logs. One that goes meanwhile, because its log comes back, stays as it was copied before."""
        self._disk.make_folders(target)
        for name in self._disk.names(source):
            if name.endswith(".snapshot"):
                with suppress(FileNotFoundError):
                    self._end(source / name, target / name)
        self._disk.sync_folder(target)

    def _end(self, source: Path, target: Path) -> None:
        if not self._disk.exists(target):
            if not self._linked(source, target):
                self._copied(source, target)
            return
        data = self._disk.read(source)
        if data != self._disk.read(target):  # the log has come back, and was retired again
            write_file(self._disk, target, [data])

    def _linked(self, source: Path, target: Path) -> bool:
        """Link a file that never changes. Returns whether that is possible here."""
        is_linked = link_file(self._disk, source, target)
        self.linked += is_linked
        return is_linked

    def _claim_file(self, source: Path, target: Path, may_link: bool) -> None:
        if not (may_link and self._linked(source, target)):
            self._check_room(target.parent, self._disk.size(source))
            self._copied(source, target)

    def _check_room(self, folder: Path, need: int) -> None:
        """Raise ENOSPC if copies of `need` bytes in all would take from the reserve of the disk, which may be the store's own."""
        shortage = DiskSpace(self._disk, folder, self._reserve).shortage(need)
        if shortage is not None:
            raise OSError(errno.ENOSPC, f"copies of {need:,} bytes are needed, and {shortage}", str(folder))

    def _copied(self, source: Path, target: Path) -> None:
        copy_file(self._disk, source, target)
        if not self._disk.exists(source):  # it may have been recycled while it was read
            self._disk.unlink(target)
            raise FileNotFoundError(errno.ENOENT, "the file went while it was copied", str(source))
        self.copied += 1


def _names(disk: Disk, folder: Path) -> list[str]:
    """Names of the segments and of the parts of snapshots in a log's folder."""
    return [file.name for files in log_files(disk, folder) for file in files]


def _taken(target: Path) -> ConfigError:
    return ConfigError(f"{target} is there already, and not empty; nothing was copied.", hint="Name a new folder.")


def _not_copied(target: Path, error: OSError) -> KvwalError:
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
        return _taken(target)  # another backup to the same folder ended first
    return storage_full(target, error) or ConfigError(
        f"{target}: the backup cannot be written ({error}); it can be run again.",
        hint="Mend the disk, its owner and mode, or name another folder.",
    )
