"""Rows of a file put into a map: in transactions of some hundred, with an account of how far an import came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import kvwal
from kvwal.cli import show
from kvwal.counted import counted
from kvwal.entry import Entry
from kvwal.errors import CommitUnknown, ConfigError, Kind, KvwalError
from kvwal.structures.transaction import commit

BATCH_ENTRIES = 500
BATCH_BYTES = 1 << 20
_AGAIN = "Then run the same command again: entries that are there already are put again."


class ImportSource(NamedTuple):
    """What is imported, in words: a name ("jobs.jsonl", "standard input"), and what it has ("line", "row")."""

    name: str
    unit: str


class NumberedEntry(NamedTuple):
    """An entry to put, and the number of its line or row, from 1 on."""

    number: int
    entry: Entry


class BadRow(ConfigError):
    """A line or row from which no entry can be made."""


class ImportStopped(KvwalError):
    """An import that ended before its last row. Its kind is that of the error that ended it."""

    def __init__(self, what: str, kind: Kind, *, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.kind = kind


@dataclass
class Count:
    """Entries of an import that were put, and those that had expired before."""

    written: int = 0
    expired: int = 0


def put_rows(target: kvwal.Map, rows: Iterable[NumberedEntry], source: ImportSource, now_ms: int) -> Count:
    """Put the entry of each row, and return how many they were. Entries that have expired are left out.

    A row that is none ends it with `BadRow`, after the rows before it were put. Any other error, and Ctrl-C, say how many entries
    were put and which row is the first that was not.
    """
    count = Count()
    for batch in batches(rows, source, count):
        entries = [row.entry for row in batch if not 0 < row.entry.expires <= now_ms]
        try:
            if entries:
                put_all(target, entries)
        except KvwalError as error:
            raise _stopped(count, source, batch, error) from error
        except KeyboardInterrupt:
            account = _account(count, source, batch[0].number)
            show.note(f"kvwal: {source.name}: {account}, or whose outcome is not known. {_AGAIN}")
            raise
        count.written += len(entries)
        count.expired += len(batch) - len(entries)
    return count


def batches(rows: Iterable[NumberedEntry], source: ImportSource, count: Count) -> Iterator[list[NumberedEntry]]:
    """Rows in batches of at most `BATCH_ENTRIES`, or about `BATCH_BYTES`: one transaction each. A larger entry has its own.

    The rows before a bad one come first. Then `BadRow` is raised, with how many entries were put. Ctrl-C while rows are read, or
    waited for, is told in the same way; the rows of the batch are not put.
    """
    batch: list[NumberedEntry] = []
    size = last = 0
    bad: BadRow | None = None
    try:
        for row in rows:
            of_row = len(row.entry.key) + len(row.entry.value)
            if batch and (len(batch) >= BATCH_ENTRIES or size + of_row > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += of_row
            last = row.number
    except BadRow as error:
        bad = error
    except KeyboardInterrupt:
        first = batch[0].number if batch else last + 1
        show.note(f"kvwal: {source.name}: {_account(count, source, first)}. {_AGAIN}")
        raise
    if batch:
        yield batch
    if bad is not None:
        raise BadRow(
            f"{source.name}: {bad.what.rstrip('.')}.",
            hint=f"{bad.hint} {_before(count)}. Mend the {source.unit}. {_AGAIN}".lstrip(),
        ) from bad


def put_all(target: kvwal.Map, entries: list[Entry]) -> None:
    """Put entries with their stored bytes unchanged, in one transaction."""
    commit(target._business, entries, sync=True)


def _stopped(count: Count, source: ImportSource, batch: list[NumberedEntry], error: KvwalError) -> ImportStopped:
    what = error.what.replace("; nothing was written", "")  # that was said of one transaction, not of the import
    if isinstance(error, CommitUnknown):
        account = f"{_put(count)}, and of {source.unit}s {batch[0].number:,} to {batch[-1].number:,} it is not known"
    else:
        account = _account(count, source, batch[0].number)
    return ImportStopped(f"{source.name}: {account}: {what}", error.kind, hint=f"{error.hint} {_AGAIN}".lstrip())


def _account(count: Count, source: ImportSource, first: int) -> str:
    return f"{_put(count)}; {source.unit} {first:,} is the first that was not"


def _before(count: Count) -> str:
    return counted(count.written, "entry before it was put", "entries before it were put")


def _put(count: Count) -> str:
    return counted(count.written, "entry was put", "entries were put")
