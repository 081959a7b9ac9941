"""A driver's own event log on its way into the store: the folder between Spark's listener and the recorder's thread.

    <root>/_spark/<namespace>/<cluster>/<node>/eventlog_v2_<app>/events_<n>_…      written by Spark, in rolls of 10 MiB
    …/events_0_<app>                                                               what happened before Spark wrote here

A roll goes when the records of its events are durable, and the folder when the recorder has left in order. A driver that was
killed leaves its folder behind; whoever records into this node next, or runs `kvwal record ROOT`, reads the rest of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kvwal.spark.eventlog.logs import Log, identify
from kvwal.spark.eventlog.reading import LogReader, Read, Records
from kvwal.spark.records import Position

FOLDER = "_spark"
POSITION = "recorder"
AFTER_SPARK = 999_999_999
"""The roll that says what Spark could not: how the recording ended."""
_PREFIX = "eventlog_v2_"


class Spool(NamedTuple):
    """Where the drivers that record as one node have their event logs."""

    root: Path
    namespace: str
    cluster: str
    node: str

    @property
    def folder(self) -> Path:
        """The folder that Spark is told to write event logs to."""
        return self.root / FOLDER / self.namespace / self.cluster / self.node

    def make(self) -> None:
        """Create the folder, for this user only: a log may hold what nobody else should read."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def logs(self) -> list[Log]:
        """The event logs that are there."""
        return [Log(path) for path in sorted(self.folder.glob(f"{_PREFIX}*"))]

    def remove(self, log: Log) -> None:
        """Forget a log, and the folders above it that are empty then."""
        shutil.rmtree(log.path, ignore_errors=True)
        folder = self.folder
        while folder != self.root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent

    def read_rest(self, records: Records, progress: Callable[[int, int, str], None] | None = None) -> list[Read]:
        """Read what killed drivers of this node left, and remove it. Only for who holds the node, as then no driver runs."""
        return [read for log in self.logs() if (read := self._read_rest(records, log, progress))]

    def _read_rest(self, records: Records, log: Log, progress: Callable[[int, int, str], None] | None) -> Read | None:
        identity = identify(log)
        if identity is None:  # killed before it could say who it is
            self.remove(log)
            return None
        if log.parts()[-1].roll != AFTER_SPARK:  # else the recorder left in order, and only could not store everything
            add_roll(log, AFTER_SPARK, [{"Event": "kvwal.Detached", "Killed": True}])
        reader, size = LogReader(records, log, identity, position=POSITION), log.size()
        reader.advance(lambda done: progress(done, size, identity.app) if progress else None)
        reader.close()
        if not reader.problem:
            self.remove(log)
        return Read(
            log.path, reader.projection.prefix, identity.name, reader.events, reader.damaged, True, reader.problem
        )


def add_roll(log: Log, roll: int, events: list[dict[str, Any]]) -> None:
    """Write events of our own among Spark's, as its `roll`-th file."""
    lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    written = log.path / f".{roll}.partial"
    written.write_bytes(lines)
    written.rename(log.path / f"events_{roll}_{log.path.name.removeprefix(_PREFIX)}")


def drop_read(log: Log, position: Position) -> None:
    """Delete the rolls that were read to their end. The first stays: it says whose log it is."""
    for part in log.parts():
        if 0 < part.roll < position.roll:
            part.path.unlink(missing_ok=True)


def spools(root: Path) -> Iterator[Spool]:
    """The folders that drivers have under a root: of those that run, and of those that were killed."""
    for folder in sorted((root / FOLDER).glob("*/*/*/")):
        namespace, cluster, node = folder.relative_to(root / FOLDER).parts
        yield Spool(root, namespace, cluster, node)
