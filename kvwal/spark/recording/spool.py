"""The spool: the folder of the event logs that Spark's listeners write and recorders read.

    <root>/_spark/<namespace>/<cluster>/<node>/eventlog_v2_<app>-<time>/events_<n>_…     written by Spark, in rolls of 10 MiB
    …/events_0_<app>-<time>                                                              written by kvwal: the application's start

A roll is deleted when the records of its events are durable, and the folder when its recorder was closed without a failure. A
killed driver leaves its folder behind. The next recorder of the node reads the rest of it, and so does `kvwal record ROOT`.
Each recording has a folder of its own, because the next recorder may begin before the store has taken the rest of the last one.

A recorder into a cluster has its spool in a folder of its machine instead of `<root>`, and <node> is named after the application.
The store's lock does not protect that spool, because a cluster has none. So the spool has a lock of its own. Its file ADDRESSES
names the nodes that the recorder was given, one in a line: clusters may have equal names.

Such a spool is read under the lease of its application: no follower reads the application's event log meanwhile. The reader of
a spool holds its lock, so all earlier readers of it have ended. The file HOLDERS has the lease-holder ids of these earlier
readers, so the new reader takes over their leases without waiting. A running follower hands its lease over between two logs. The
lease of a killed follower expires.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from kvwal.errors import StoreLocked
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, Lock
from kvwal.spark.eventlog.log_reader import LogReader, LogResult, ReportProgress, result_of
from kvwal.spark.eventlog.logs import ApplicationIdentity, LocalEventLog, identify
from kvwal.spark.eventlog.runs import EarlierRun, RecordMap, RunRecords
from kvwal.spark.leases import LeasedMap, Leases, Pause
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.records import EventLogPosition, from_value, to_value
from kvwal_archive.objects.owner import give_file, make_folders

NOTHING: Mapping[str, Any] = MappingProxyType({})
FOLDER = "_spark"
POSITION = "recorder"
LAST_ROLL = 999_999_999
"""The roll that kvwal writes after those of Spark: it says how the recording ended."""
_PREFIX = "eventlog_v2_"
_LOCK = "LOCK"
_ADDRESSES = "ADDRESSES"
_HOLDERS = "HOLDERS"


class SpoolReader(NamedTuple):
    """The right to read a spool: the map for its records, and the call that keeps the lease (see `Leases.beat`)."""

    records: RecordMap
    beat: Callable[[], None] = lambda: None


class Spool(NamedTuple):
    """The folder of the event logs of all drivers that record as one node."""

    root: Path
    namespace: str
    cluster: str
    node: str

    @property
    def folder(self) -> Path:
        """The folder that Spark writes the event logs to."""
        return self.root / FOLDER / self.namespace / self.cluster / self.node

    def make(self) -> None:
        """Create the folder, readable by this user only: an event log may hold secrets.

        If root runs the driver, the owner of the store's root folder owns this folder, and Spark's files inherit its group, so
        both users can read them.
        """
        make_folders(self.root, 0o777)
        while not self.folder.is_dir():
            # Another driver's `remove` may delete an empty folder above this one. Each time this fails, a `remove` has ended.
            with suppress(FileNotFoundError):
                make_folders(self.folder.parent, 0o777)
                make_folders(self.folder, 0o700, keep_group=True)

    def lock(self) -> Lock:
        """Lock the spool for this process. `StoreLocked` if a recorder has it, on this machine."""
        self.make()
        held = OS_DISK.lock(self.folder / _LOCK, f"pid {os.getpid()}")
        if isinstance(held, str):
            raise StoreLocked(
                f"{self.folder}: a recorder is using this spool ({held}).", hint="Wait until it has ended."
            )
        return held

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for the block. `StoreLocked` while the driver of the spool records."""
        lock = self.lock()
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def leased(self, records: LeasedMap, pause: Pause, *, app: str = "") -> Iterator[SpoolReader]:
        """Hold the lease of the application of this spool for the block. The caller holds the lock.

        `app` is the prefix of the application's keys; by default that of the logs in the spool. `LeaseHeld` if another reader
        keeps the lease. In the block, `LeaseLost` if another reader has taken it; a new `leased` block resumes from the position
        in the store. The spool of a folder needs no lease, since one process writes to its node.
        """
        app = app or self.application()
        if not app or not self.addresses():
            yield SpoolReader(records)
            return
        len(records)  # a store that is away would hold up the first beat
        leases = Leases(records, SYSTEM, self.holders())
        self.name_holder(leases.holder)
        # Without the lease, or after an error of the store, the lease is not released: the spool's next reader finds its holder
        # in HOLDERS and takes it over.
        with leases.hold(app, pause) as held, leases:
            yield SpoolReader(held, leases.beat)

    def name_addresses(self, addresses: Iterable[str]) -> None:
        """Note the nodes (`host:port`) of the cluster that this spool is for. The caller holds the lock."""
        with (self.folder / _ADDRESSES).open("w") as file:
            give_file(file.fileno(), self.folder, 0o600)
            file.writelines(f"{address}\n" for address in sorted(addresses))

    def addresses(self) -> set[str]:
        """Nodes of the cluster that this spool is for; none for a spool of a folder, or of a version that did not note them."""
        return self._words(_ADDRESSES)

    def name_holder(self, holder: str) -> None:
        """Note a reader of this spool, as leases name it, before it takes a lease. The caller holds the lock."""
        with (self.folder / _HOLDERS).open("a") as file:
            give_file(file.fileno(), self.folder, 0o600)
            file.write(f"{holder}\n")

    def holders(self) -> set[str]:
        """The readers of this spool, as leases name them. While the caller holds the lock, all of these readers have ended."""
        return self._words(_HOLDERS)

    def application(self) -> str:
        """The prefix of the keys of the application whose logs are here; empty if no log names one."""
        identities = (identity for log in self.logs() if (identity := identify(log)) is not None)
        return next((app_prefix(identity.app, identity.attempt) for identity in identities), "")

    def _words(self, name: str) -> set[str]:
        try:
            return set((self.folder / name).read_text().split())
        except FileNotFoundError:
            return set()

    def logs(self) -> list[LocalEventLog]:
        """The event logs in the folder."""
        return [LocalEventLog(self.folder / name) for name in OS_DISK.names(self.folder) if name.startswith(_PREFIX)]

    def remove(self, log: LocalEventLog) -> None:
        """Delete a log, and the folders above it that are empty afterwards. Other drivers may begin and end meanwhile."""
        shutil.rmtree(log.path, ignore_errors=True)
        folder = self.folder
        if set(OS_DISK.names(folder)) <= {_LOCK, _ADDRESSES, _HOLDERS}:
            for name in (_HOLDERS, _ADDRESSES, _LOCK):
                (folder / name).unlink(missing_ok=True)
        while folder != self.root:
            OS_DISK.remove_folder(folder)
            folder = folder.parent

    def read_rest(
        self, records: RecordMap, progress: ReportProgress | None = None, *, recording: LocalEventLog | None = None
    ) -> list[LogResult]:
        """Read the logs that killed drivers of this node left, and delete each that was read to its end.

        The caller holds the lock of the node, or of the spool, so no driver is recording here but the caller's own, into the log
        `recording`. In a cluster the caller has taken the lease: the lease fences late writes of a killed driver.
        """
        left = [log for log in self.logs() if recording is None or log.path.name != recording.path.name]
        return [result for log in left if (result := self._read_rest(records, log, progress))]

    def begin(
        self, records: RecordMap, log: LocalEventLog, identity: ApplicationIdentity, beside: Mapping[str, Any] = NOTHING
    ) -> None:
        """Put a position at the start of the log, and the records `beside` it, unless the stored position is already in this log.

        An application has one position for all of its recordings, and each recording has a log of its own. `EarlierRun` if a
        later run of the application is recorded.
        """
        key = f"{app_prefix(identity.app, identity.attempt)}/{POSITION}"
        stored = RunRecords(records, identity, log.path).get(key)
        position = None if stored is None else from_value(stored)
        if not isinstance(position, EventLogPosition) or (
            position.path and Path(position.path).parent.name != log.path.name
        ):
            records.put_many({key: to_value(EventLogPosition()), **beside})

    def _read_rest(self, records: RecordMap, log: LocalEventLog, progress: ReportProgress | None) -> LogResult | None:
        identity = identify(log)
        if identity is None:  # the driver was killed before the log named its application
            self.remove(log)
            return None
        # A closed recorder has written the last roll; it left the log only because it could not store all events.
        if log.files()[-1].roll != LAST_ROLL:
            add_roll(log, LAST_ROLL, [{"Event": "kvwal.Detached", "Killed": True}])
        try:
            self.begin(records, log, identity)
            reader, size = LogReader(records, log, identity, position=POSITION), log.size()
        except EarlierRun as error:
            prefix = app_prefix(identity.app, identity.attempt)
            return LogResult(log.path, prefix, identity.name, 0, 0, False, skipped=str(error))
        reader.advance(lambda done: progress(done, size, identity.app) if progress else None)
        reader.close()
        if not reader.problem:
            self.remove(log)
        return result_of(reader, log, identity, complete=True)


def add_roll(log: LocalEventLog, roll: int, events: list[dict[str, Any]]) -> None:
    """Write events of kvwal as the `roll`-th file of a log."""
    lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    partial = log.path / f".{roll}.partial"
    with partial.open("wb") as file:
        give_file(file.fileno(), log.path, 0o660)
        file.write(lines)
    partial.rename(log.path / f"events_{roll}_{log.path.name.removeprefix(_PREFIX)}")


def delete_read_rolls(log: LocalEventLog, position: EventLogPosition) -> None:
    """Delete the rolls that were read to their end. The first roll stays, because it names the application."""
    for file in log.files():
        if 0 < file.roll < position.roll:
            (log.path / file.path.name).unlink(missing_ok=True)


def spools(root: Path) -> Iterator[Spool]:
    """The spools under a root, of running and of killed drivers."""
    all_spools = root / FOLDER
    for namespace in OS_DISK.names(all_spools):
        for cluster in OS_DISK.names(all_spools / namespace):
            for node in OS_DISK.names(all_spools / namespace / cluster):
                spool = Spool(root, namespace, cluster, node)
                if OS_DISK.is_folder(spool.folder):
                    yield spool
