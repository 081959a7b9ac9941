"""Latest records of another product put into a map: what is there already is not put again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import kvwal
from kvwal.cli import show
from kvwal.cli.transfer.puts import BATCH_BYTES, BATCH_ENTRIES, ImportStopped, put_all
from kvwal.counted import counted
from kvwal.entry import Entry
from kvwal.errors import KvwalError, TooLarge
from kvwal.importers.source import Report
from kvwal.location.cluster import ClusterMaps

Placed = tuple[Entry, Path, int]
"""An entry, and the file and the offset of its record."""
AGAIN = "Then run the same command again: what is there already is not put again."


@dataclass
class Changes:
    """What an import did to one map."""

    put: int = 0
    unchanged: int = 0
    deleted: int = 0

    def sentence(self, name: str) -> str:
        """The answer for people."""
        said = f"{name}: {counted(self.put, 'entry was put', 'entries were put')}"
        if self.unchanged:
            said += f", {counted(self.unchanged, 'was there', 'were there')} already"
        if self.deleted:
            said += f", {counted(self.deleted, 'was', 'were')} deleted"
        return f"{said}."


def put_latest(store: object, target: kvwal.Map, entries: Iterable[Placed], report: Report, name: str) -> Changes:
    """Bring a map to these entries, in transactions of some hundred. A delete deletes the key if it is there.

    In a cluster every entry is put: to compare each one would take a question each. Raises `ImportStopped`.
    """
    changes = Changes()
    needed = entries if isinstance(store, ClusterMaps) else _needed(target, entries, changes)
    for batch in _batches(needed):
        try:
            _put(target, batch, report, changes)
        except KvwalError as error:
            what = error.what.replace("; nothing was written", "")  # that was said of one transaction
            raise ImportStopped(
                f"{changes.sentence(name)} Then the import stopped: {what}",
                error.kind,
                hint=f"{error.hint} {AGAIN}".lstrip(),
            ) from error
        except KeyboardInterrupt:
            show.note(f"kvwal: {changes.sentence(name)} {AGAIN}")
            raise
    return changes


def _needed(target: kvwal.Map, entries: Iterable[Placed], changes: Changes) -> Iterator[Placed]:
    """The entries that change something."""
    state = target._business.state
    for placed in entries:
        entry = placed[0]
        there = state.lookup(entry.key_class, entry.key)
        if there is not None and (
            entry.deleted or (there.value, there.value_class) != (entry.value, entry.value_class)
        ):
            yield placed
        elif there is not None:
            changes.unchanged += 1
        elif not entry.deleted:
            yield placed


def _batches(entries: Iterable[Placed]) -> Iterator[list[Placed]]:
    batch: list[Placed] = []
    size = 0
    for placed in entries:
        of_entry = len(placed[0].key) + len(placed[0].value)
        if batch and (len(batch) >= BATCH_ENTRIES or size + of_entry > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(placed)
        size += of_entry
    if batch:
        yield batch


def _put(target: kvwal.Map, batch: list[Placed], report: Report, changes: Changes) -> None:
    """Put one transaction. An entry that is too large for one is left out."""
    try:
        put_all(target, [entry for entry, _, _ in batch])
    except TooLarge as error:
        if len(batch) > 1:
            raise
        _, path, offset = batch[0]
        report.left_out(path, offset, error.what.rstrip("."))
        return
    deleted = sum(entry.deleted for entry, _, _ in batch)
    changes.deleted += deleted
    changes.put += len(batch) - deleted
