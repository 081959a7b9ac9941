"""The restore of NiFi's FlowFile repository: the latest state of each record, from the snapshot and the journals behind it.

Memory holds a place for each record, and none of its attributes.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator
from pathlib import Path

from kvwal.codecs import registry
from kvwal.entry import Entry
from kvwal.importers.nifi.cursor import Cursor
from kvwal.importers.nifi.files import ForeignHead, JournalHead, SnapshotHead, journal_head, snapshot_head
from kvwal.importers.nifi.folders import Repository, first_transaction
from kvwal.importers.nifi.schema import INLINE, REMOVED, Edit, Schema, first_bytes, read_edit
from kvwal.importers.nifi.transactions import (
    Journal,
    PlacedEdit,
    Transaction,
    minimal_locking,
    placed,
    sequential,
)
from kvwal.importers.source import EndsEarly, NextOf, NotWhole, Progress, Report, SourceFile, Sources
from kvwal.ports.disk import Disk

_NO_TRANSACTION = -1


class RepositoryReplay:
    """The records that a repository has. `swap_files` are the files of records that NiFi had swapped out of it."""

    def __init__(self, disk: Disk, repository: Repository, report: Report, progress: Progress | None = None) -> None:
        self.swap_files: set[str] = set()
        self._disk = disk
        self._report = report
        self._progress = progress
        self._paths: list[Path] = []
        self._schemas: list[Schema] = []
        self._numbers: dict[Path, int] = {}
        self._latest: dict[int, tuple[int, int]] = {}
        self._deleted: set[int] = set()
        self._any_schema = _any_schema(disk, repository)
        last = _NO_TRANSACTION if repository.snapshot is None else self._read_snapshot(repository.snapshot)
        if repository.sequential:
            journals = [path for path in repository.journals[0] if not first_transaction(path) < last]
            for path in journals:
                for transaction in self._transactions(path, is_sequential=True):
                    self._apply(transaction)
        else:
            partitions = [self._partition(paths) for paths in repository.journals]
            for transaction in heapq.merge(*partitions, key=lambda each: each.number):
                if transaction.number > last:
                    self._apply(transaction)

    def __len__(self) -> int:
        """Number of records."""
        return len(self._latest)

    def entries(self) -> Iterator[tuple[Entry, Path, int]]:
        """An entry for each record, with its file and offset; and a delete for each record that the journals deleted."""
        sources = Sources(self._disk, self._paths)
        for record, (file, offset) in sorted(self._latest.items(), key=lambda item: item[1]):
            edit = read_edit(Cursor(sources[file], offset + 1), self._schemas[file])
            key, key_class = registry.encode_key(record)
            value, value_class = registry.encode_value(edit.values)
            yield Entry(key, key_class, value, value_class, False, 0), self._paths[file], offset
        for record in sorted(self._deleted - self._latest.keys()):
            key, key_class = registry.encode_key(record)
            yield Entry(key, key_class, b"", "", True, 0), Path(), 0

    def _opened(self, path: Path, schema: Schema) -> tuple[int, SourceFile]:
        """A file and its number. Raises `NotWhole` if it is an overflow file that is not there."""
        if not self._disk.exists(path):
            raise NotWhole(f"its overflow file {path.parent.name}/{path.name} is not there")
        file = SourceFile(self._disk, path, self._progress)
        number = self._numbers.setdefault(path, len(self._paths))
        if number == len(self._paths):
            self._paths.append(path)
            self._schemas.append(schema)
        return number, file

    def _partition(self, paths: list[Path]) -> Iterator[Transaction]:
        for path in paths:
            yield from self._transactions(path, is_sequential=False)

    def _transactions(self, path: Path, *, is_sequential: bool) -> Iterator[Transaction]:
        file = SourceFile(self._disk, path, self._progress)
        try:
            head = journal_head(file)
        except EndsEarly as error:
            self._report.torn(path, 0, error.what)
            return
        except NotWhole as error:
            if file.skip(0, 0) == file.size:
                self._report.torn(path, 0, "it has zeros only")
                return
            if self._any_schema is None:
                self._report.damaged(path, 0, file.size, error.what)
                return
            head = JournalHead(
                self._any_schema, 0
            )  # its head is damaged, and reported with what is before its first record
        number, _ = self._opened(path, head.schema)
        read = sequential if is_sequential else minimal_locking
        yield from read(Journal(file, number, head, self._opened), self._report)

    def _apply(self, transaction: Transaction) -> None:
        for edit in transaction.edits:
            self._change(edit)

    def _change(self, edit: PlacedEdit) -> None:
        record = edit.record
        self.swap_files.discard(edit.old_swap_file)
        if edit.action in ("SWAP_OUT", "SWAP_FILE_RENAMED"):
            self.swap_files.add(edit.swap_file)
        elif edit.action in ("SWAP_IN", "SWAP_FILE_DELETED"):
            self.swap_files.discard(edit.swap_file)
        if record is None:
            return
        if edit.action in REMOVED or edit.action == "SWAP_OUT":
            self._latest.pop(record, None)
            if edit.action in REMOVED:
                self._deleted.add(record)
        else:
            self._latest[record] = edit.file, edit.offset
            self._deleted.discard(record)

    def _read_snapshot(self, path: Path) -> int:
        """Take the records of a snapshot, and return its greatest transaction."""
        file = SourceFile(self._disk, path, self._progress)
        if not file.size:
            self._report.torn(path, 0, "it is empty")
            return _NO_TRANSACTION
        try:
            head = snapshot_head(file)
        except NotWhole as error:
            if self._any_schema is None:
                self._report.damaged(path, 0, file.size, error.what)
                return _NO_TRANSACTION
            head = SnapshotHead(
                self._any_schema, 0, _NO_TRANSACTION, sys.maxsize
            )  # its records end where the swap files begin
        number, _ = self._opened(path, head.schema)
        offset = self._read_records(file, number, head)
        if offset < file.size and (swap_files := _swap_files(file, offset)) is not None:
            self.swap_files.update(swap_files)
        elif offset < file.size:
            self._report.damaged(path, offset, file.size, "the list of swap files is not whole")
        return head.last_transaction

    def _read_records(self, file: SourceFile, number: int, head: SnapshotHead) -> int:
        """Take the records of a snapshot, and return the offset behind them. After damage it goes on at the next whole record."""
        offset, count, starts = head.end, 0, NextOf(file, first_bytes(head.schema))
        while count < head.records:
            try:
                edit, end = _inline(file, offset, head.schema)
            except NotWhole as error:
                if _swap_files(file, offset) is not None:
                    return offset  # records before it were damaged, so that their number is not reached
                found = starts.after(offset + 1)
                end = file.size if found < 0 else found
                self._report.damaged(file.path, offset, end, error.what)
                if found < 0:
                    return file.size
            else:
                self._change(placed(edit, number, offset))
                count += 1
            offset = end
        return offset


def _any_schema(disk: Disk, repository: Repository) -> Schema | None:
    """The schema of the first file whose head is whole, for files whose head is damaged. None if there is none.

    Raises `ConfigError` if kvwal can read no file, and the head of one says why.
    """
    refusal = None
    snapshots = [] if repository.snapshot is None else [repository.snapshot]
    for path in [*snapshots, *(path for partition in repository.journals for path in partition)]:
        file = SourceFile(disk, path)
        try:
            return snapshot_head(file).schema if path == repository.snapshot else journal_head(file).schema
        except ForeignHead as error:
            refusal = refusal or error.refusal
        except NotWhole:
            continue
    if refusal is not None:
        raise refusal
    return None


def _inline(file: SourceFile, offset: int, schema: Schema) -> tuple[Edit, int]:
    cursor = Cursor(file, offset)
    if (kind := cursor.take(1)[0]) != INLINE:
        raise NotWhole(f"no record begins with the byte {kind}")
    return read_edit(cursor, schema), cursor.offset


def _swap_files(file: SourceFile, offset: int) -> list[str] | None:
    """The names in the section behind the records, which ends with the file; None if there is no such section."""
    cursor = Cursor(file, offset)
    try:
        count = cursor.number(4)
        if not 0 <= count <= file.size:
            return None
        names = [cursor.text() for _ in range(count)]
    except NotWhole:
        return None
    return names if cursor.offset == file.size else None
