"""Retired logs: the log of a destroyed map is removed, and only its end is kept, beside the folders of the logs.

    <root>/<namespace>/<cluster>/_retired/<node>/
        <business>.snapshot     the end of a log: a snapshot without entries
        <business>.gone         a log's folder that is being removed: now, or at the next start

A retired log that is written to again continues from its end: with the same log_id, the next sequence and a later timestamp.
So the archive has one log of the business, with rising sequences. The end is durable before the folder is renamed, and the new
name is durable before a file in the folder is deleted: after a kill at any step either the whole log is there, or its end is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from kvwal.log.files.atomic_file import delete_abandoned, write_file
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.format import Seal, SnapshotHeader, pack_header, pack_seal
from kvwal.log.files.names import RETIRED, check_place, log_folder, snapshot_name
from kvwal.log.reader import SnapshotReader, entry_decoder, log_files
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk
from kvwal_archive.layout import Place, check_name

_END = ".snapshot"
_GONE = ".gone"


def retire(
    disk: Disk, clock: Clock, root: Path, place: Place, end: SnapshotHeader | None, unlock: Callable[[], None]
) -> None:
    """Remove the folder of a log without live entries. The caller holds the log's lock, and nothing writes to the log any more.

    `end` is kept as the log's end. It is None if the archive and other nodes never had anything of this log. `unlock` is called
    before the lock file is deleted: a held lock keeps the file open, and on NFS a deleted file that is open keeps its folder.
    """
    folder, gone = log_folder(root, place), _folder(root, place) / f"{place.business}{_GONE}"
    disk.make_folders(gone.parent)
    disk.remove_tree(gone)
    if end is not None:
        write_file(disk, _path(root, place), [_packed(clock, end)])
    disk.rename(folder, gone)
    disk.sync_folder(gone.parent)  # the new name first: see tests/support/disk/power.py
    disk.sync_folder(folder.parent)
    unlock()
    disk.remove_tree(gone)
    disk.remove_folder(folder.parent)


def bring_back(disk: Disk, root: Path, place: Place, check: Callable[[SnapshotHeader, int], None]) -> None:
    """Give a retired log its end back as its first snapshot, if the log has no files. The caller holds the log's lock.

    The end stays until `remove_end`, which is called when the log was recovered. `CorruptLog` if the end is damaged. `check` gets
    its header and last timestamp before anything is written, and raises an error to refuse it.
    """
    path = _path(root, place)
    folder = log_folder(root, place)
    if disk.exists(path) and not any(log_files(disk, folder)):
        data = disk.read(path)
        end = _checked(path, place, data)
        check(end, end.last_timestamp)
        write_file(disk, folder / snapshot_name(end.last_sequence), [data])


def end_of(disk: Disk, root: Path, place: Place) -> SnapshotHeader | None:
    """Where a retired log ended; None if none of this place is retired. `CorruptLog` if that is damaged."""
    path = _path(root, place)
    return _checked(path, place, disk.read(path)) if disk.exists(path) else None


def retired_places(disk: Disk, root: Path, namespace: str, cluster: str) -> list[Place]:
    """The logs of a cluster under `root` of which only the end is left, sorted."""
    folder = root / check_name("namespace", namespace) / check_name("cluster", cluster) / RETIRED
    return sorted(
        Place(namespace, cluster, name.removesuffix(_END), node)
        for node in disk.names(folder)
        for name in disk.names(folder / node)
        if name.endswith(_END)
    )


def remove_end(disk: Disk, root: Path, place: Place) -> None:
    """Delete the end of this log: its history is over, or it has files again."""
    disk.unlink(_path(root, place))


def remove_abandoned(disk: Disk, root: Path, namespace: str, cluster: str, node: str) -> None:
    """Remove the folders whose removal was interrupted when a program was killed, and unfinished ends of logs."""
    folder = _folder(root, Place(namespace, cluster, "any", node))
    delete_abandoned(disk, folder)
    for name in disk.names(folder):
        if name.endswith(_GONE):
            disk.remove_tree(folder / name)


def _folder(root: Path, place: Place) -> Path:
    return root / place.namespace / place.cluster / RETIRED / check_place(place).node


def _path(root: Path, place: Place) -> Path:
    return _folder(root, place) / f"{place.business}{_END}"


def _packed(clock: Clock, end: SnapshotHeader) -> bytes:
    """The bytes of the end: a snapshot without entries. Its `left_out` says that the log's deletes are not in it."""
    end = msgspec.structs.replace(end, salt=clock.random_bits(32), created_ms=clock.wall_ms())
    head = b"".join(pack_header(end))
    seal = Seal(last_sequence=end.last_sequence, entries=0, bytes=len(head), left_out=end.last_timestamp)
    return b"".join([head, *pack_seal(seal, salt=end.salt)[0]])


def _checked(path: Path, place: Place, data: bytes) -> SnapshotHeader:
    reader = SnapshotReader(path, data)
    check_belongs(reader.header, place, path.parent)
    _read_all(reader.whole(entry_decoder()))
    return reader.header


def _read_all(blocks: Iterator[object]) -> None:
    for _ in blocks:
        pass
