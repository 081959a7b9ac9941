"""Merge of nodes: the entries of finished logs move into the log of another node under the same root.

    1. The logs are locked: first that of the target, then those of the batch. Their claim files are given to the target.
    2. The target's log is recovered. The entries that it lacks are appended with the timestamps that they have, and synced.
       If its snapshot is far behind then, a checkpoint follows.
    3. The folder of each merged log is renamed to `<business>/_merged/<node>`, durably, and removed.

An entry is appended only if it is newer than the target's latest entry of its key. So the merge can be killed at any step and
run again, and nothing is appended twice. (Of two different entries with the same timestamp the target's stays.) A reader finds
each entry in the old log, in the target's, or in both; two copies are equal, and count once. Only the holder of the target's
lock uses `_merged`, and the next merge removes what is left there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from kvwal.config import Settings
from kvwal.content.transfer import give_claim_files, link_or_copy
from kvwal.entry import Entry, encode_entries
from kvwal.errors import ConfigError, KvwalError, LogFailed
from kvwal.history.reads.tail_reader import Identity, read_local, read_log
from kvwal.key_class import DROPPED, TIME_MARK
from kvwal.log.appender import Appender, storage_full
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.chain import check_belongs
from kvwal.log.files.format import Header, format_of
from kvwal.log.files.names import log_folder
from kvwal.log.files.retired import bring_back, remove_end
from kvwal.log.files.segment import SealedSegment
from kvwal.log.files.snapshot import in_blocks, size_of
from kvwal.log.log import check_clock, next_header, take_lock
from kvwal.log.reader import entry_decoder
from kvwal.log.recovery import RecoveryTarget, recover
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk, Lock
from kvwal.structures.provenance.state import OPTIONS
from kvwal_archive.layout import Place

MERGED = "_merged"
"""Folder beside the nodes of a business, for the logs that are being removed. Readers skip it."""
BATCH = 64
"""Nodes that are merged at a time: so many locks are held, and the target's log is recovered once for them."""
CHECKPOINT_BYTES = 16 << 20
"""Bytes of segments after the snapshot of the target's log from which a merge makes a checkpoint."""


class MergePorts(NamedTuple):
    """The ports of a merge."""

    disk: Disk
    clock: Clock


class MergeResult(NamedTuple):
    """The nodes that were merged, the number of entries that were appended, and why the other nodes stay."""

    nodes: list[str]
    entries: int
    left: dict[str, KvwalError]


def merge_nodes(
    ports: MergePorts, root: Path, target: Place, nodes: Sequence[str], progress: Callable[[int, int, str], None]
) -> MergeResult:
    """Move the entries of these nodes' logs of the business into the log of `target`, and remove the logs.

    A log that is locked or damaged stays. `progress` is called with the nodes done, the number of nodes, and what is done.
    Without nodes, only what an interrupted merge left is removed. Raises `StoreLocked` if another process holds the target's
    log, `CorruptLog`, `StorageFull`, `LogFailed` for another error of the disk. Nothing is lost then, and the next merge goes on.
    """
    done, left, entries = list[str](), dict[str, KvwalError](), 0
    for begin in range(0, max(1, len(nodes)), BATCH):
        progress(begin, len(nodes), "merging nodes")
        batch = _Batch(ports, root, target)
        try:
            with batch.locks:
                entries += batch.run(nodes[begin : begin + BATCH], done, left)
        except OSError as error:
            raise _not_merged(log_folder(root, target), error) from error
    progress(len(nodes), len(nodes), "merging nodes")
    return MergeResult(done, entries, left)


def has_leftovers(disk: Disk, root: Path, target: Place) -> bool:
    """Whether an interrupted merge left folders to remove."""
    return bool(disk.names(log_folder(root, target).parent / MERGED))


def _not_merged(folder: Path, error: OSError) -> KvwalError:
    return storage_full(folder, error) or LogFailed(
        f"{folder}: nodes could not be merged into this log ({error}).",
        hint="Nothing is lost: mend the disk, and run the command again.",
    )


class _Batch:
    """Some nodes that are merged together. `locks` are held until it is closed."""

    def __init__(self, ports: MergePorts, root: Path, target: Place) -> None:
        self.locks = ExitStack()
        self._disk = ports.disk
        self._clock = ports.clock
        self._root = root
        self._target = target

    def run(self, nodes: Sequence[str], done: list[str], left: dict[str, KvwalError]) -> int:
        """Merge the nodes. Returns the number of entries that were appended."""
        self._lock(self._target)
        self._remove_leftovers()
        wanted: set[Identity] = set()
        sources: dict[Place, Lock] = {}
        for node in nodes:
            source = self._target._replace(node=node)
            try:
                lock = self._lock(source)
                wanted |= self._identities(source)
                sources[source] = lock
            except KvwalError as error:
                left[node] = error
        for source in sources:
            self._give_contents(source)
        count = self._append(list(sources), wanted) if sources else 0
        for source, lock in sources.items():
            self._remove(source, lock)
            done.append(source.node)
        self._disk.remove_folder(self._merged)
        return count

    def _give_contents(self, source: Place) -> None:
        """Give the bytes of a log's contents to the target, before an entry there names them."""
        put = link_or_copy(self._disk)
        give_claim_files(self._disk, log_folder(self._root, source), log_folder(self._root, self._target), put)

    def _lock(self, place: Place) -> Lock:
        lock = take_lock(self._disk, self._root, log_folder(self._root, place))
        self.locks.callback(lock.release)
        return lock

    def _identities(self, source: Place) -> set[Identity]:
        """The identities in a log. Raises `ConfigError` for a log that marks a destroyed map, or has events, `ClockSkew`,
        `CorruptLog`.
        """
        found = read_log(self._disk, self._root, source, _Identities, everything=True).sink
        folder = log_folder(self._root, source)
        if found.classes & {DROPPED}:
            raise ConfigError(f"{folder}: its map was destroyed.", hint="Leave it to the store that wrote it.")
        if OPTIONS in found.classes:
            raise ConfigError(
                f"{folder}: it has provenance, whose events are in files that are not merged.",
                hint="Leave it as a node of its own: reading merges the logs of all nodes.",
            )
        check_clock(folder, found.last_timestamp, self._clock.wall_ms(), Settings())
        return found.identities

    def _append(self, sources: Sequence[Place], wanted: set[Identity]) -> int:
        """Append to the target's log what it lacks of the sources. Returns the number of entries, which are durable."""
        folder = log_folder(self._root, self._target)
        latest: dict[Identity, int] = {}

        def keep(entries: list[Entry]) -> None:
            for entry in entries:
                if (identity := (entry.key_class, entry.key)) in wanted:
                    latest[identity] = entry.timestamp

        def check(header: Header, last_timestamp: int) -> None:
            check_belongs(header, self._target, folder)
            check_clock(folder, last_timestamp, self._clock.wall_ms(), Settings())

        bring_back(self._disk, self._root, self._target, check)
        recovered = recover(self._disk, folder, RecoveryTarget(keep, latest.clear), entry_decoder(), check=check)
        remove_end(self._disk, self._root, self._target)
        header = msgspec.structs.replace(next_header(self._clock, self._target, recovered), merged=True)
        appender = Appender(self._disk, self._clock, folder, header, Settings(), recovered.sealed)
        whole, count = False, 0
        try:
            for source in sources:
                for block in in_blocks(self._lacking(source, latest), size_of):
                    format = format_of(block)
                    appender.append([encode_entries(block)], len(block), sync=False, format=format)
                    count += len(block)
            whole = True
        finally:
            appender.close(seal=whole)
        covered = recovered.snapshot.number if recovered.snapshot else 0
        self._checkpoint(folder, [segment for segment in appender.sealed if segment.last > covered])
        return count

    def _checkpoint(self, folder: Path, segments: Sequence[SealedSegment]) -> None:
        """Bring the snapshot of the target's log up to its end, if it is far behind: readers hold the segments in memory."""
        if sum(segment.size for segment in segments) >= CHECKPOINT_BYTES:
            checkpoint(self._disk, self._clock, folder, segments, entry_decoder())

    def _lacking(self, source: Place, latest: dict[Identity, int]) -> Iterator[Entry]:
        """The entries of a log that are newer than the `latest` of their identity, in the order of their timestamps."""
        local = read_local(self._disk, self._root, source)
        entries = [*(local.snapshot if local.tail.first > 1 else []), *local.tail.entries]
        for entry in sorted(entries, key=lambda entry: entry.timestamp):
            identity = (entry.key_class, entry.key)
            if entry.key_class != TIME_MARK and entry.timestamp > latest.get(identity, 0):
                latest[identity] = entry.timestamp
                yield entry

    def _remove(self, source: Place, lock: Lock) -> None:
        """Remove the folder of a merged log. Its new name is durable before a file in it is deleted.

        The lock is released before its file is deleted: the file of another log may get the number of this one's inode, and would
        be locked by it.
        """
        folder, gone = log_folder(self._root, source), self._merged / source.node
        self._disk.make_folders(gone.parent)
        self._disk.rename(folder, gone)
        self._disk.sync_folder(gone.parent)  # the new name first: see tests/support/disk/power.py
        self._disk.sync_folder(folder.parent)
        lock.release()
        self._disk.remove_tree(gone)

    def _remove_leftovers(self) -> None:
        """Remove the logs whose removal was interrupted when a program was killed."""
        for name in self._disk.names(self._merged):
            self._disk.remove_tree(self._merged / name)

    @property
    def _merged(self) -> Path:
        return log_folder(self._root, self._target).parent / MERGED


class _Identities:
    """A sink that keeps the identities of the entries, and the greatest timestamp."""

    key: bytes | None = None

    def __init__(self) -> None:
        self.identities: set[Identity] = set()
        self.last_timestamp = 0

    @property
    def classes(self) -> set[str]:
        """The key classes of the entries."""
        return {key_class for key_class, _ in self.identities}

    def take(self, first: int, entries: list[Entry]) -> None:
        """See `Sink.take`."""
        for entry in entries:
            self.identities.add((entry.key_class, entry.key))
            self.last_timestamp = max(self.last_timestamp, entry.timestamp)

    def take_snapshot(self, last: int, entries: list[Entry]) -> None:
        """See `Sink.take_snapshot`."""
        self.take(last, entries)
