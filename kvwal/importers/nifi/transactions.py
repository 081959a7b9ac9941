"""Transactions in the journals of NiFi's two write-ahead logs.

The sequential log writes a byte 64, the transaction's number in 8 bytes, the length of its records in 4, and the records; a byte
127 stands at the end of a journal that was closed. The log with minimal locking writes the number, and behind each record a byte:
1, another record follows, or 2, it was the last one. Zeros up to the end of a file are the trace of a power cut, as for NiFi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kvwal.importers.nifi.cursor import Cursor
from kvwal.importers.nifi.files import JournalHead
from kvwal.importers.nifi.folders import first_transaction, overflow_file
from kvwal.importers.nifi.schema import IN_OVERFLOW, INLINE, Edit, Schema, first_bytes, read_edit
from kvwal.importers.source import EndsEarly, NextOf, NotWhole, Report, SourceFile

FOLLOWS, COMPLETE = 64, 127
CONTINUES, COMMITS = 1, 2
_NUMBER_BYTES = 8
_MOST_SKIPPED = 1 << 24
"""How far the number of the next transaction may be from the last one, where damage is skipped."""


class PlacedEdit(NamedTuple):
    """A change of a record, and where it is: the number of the file, and the offset."""

    action: str
    record: int | None
    swap_file: str
    old_swap_file: str
    file: int
    offset: int


class Transaction(NamedTuple):
    """A whole transaction. `end` is the offset behind it."""

    number: int
    edits: list[PlacedEdit]
    end: int


class Journal(NamedTuple):
    """A journal that is read: its file, the number of it, its head, and what opens its overflow files under their numbers."""

    file: SourceFile
    number: int
    head: JournalHead
    opened: Callable[[Path, Schema], tuple[int, SourceFile]]

    def edits(self, cursor: Cursor) -> Iterator[PlacedEdit]:
        """The changes of one record at the cursor: one, or those of an overflow file. Raises `NotWhole`."""
        offset, kind = cursor.offset, cursor.take(1)[0]
        if kind == INLINE:
            yield placed(read_edit(cursor, self.head.schema), self.number, offset)
        elif kind == IN_OVERFLOW:
            yield from self._overflow(overflow_file(self.file.path, cursor.text()))
        else:
            raise NotWhole(f"no record begins with the byte {kind}")

    def _overflow(self, path: Path) -> Iterator[PlacedEdit]:
        number, file = self.opened(path, self.head.schema)
        cursor = Cursor(file, 0)
        while cursor.offset < file.size:
            offset = cursor.offset
            if (kind := cursor.take(1)[0]) != INLINE:
                raise NotWhole(f"in its overflow file {path.name} no record begins with the byte {kind} at {offset:,}")
            yield placed(read_edit(cursor, self.head.schema), number, offset)


def placed(edit: Edit, file: int, offset: int) -> PlacedEdit:
    """A change without its values."""
    old = str(edit.values.get("original_swap_location") or "")
    return PlacedEdit(edit.action, edit.record, edit.swap_file, old, file, offset)


def sequential(journal: Journal, report: Report) -> Iterator[Transaction]:
    """The transactions of a journal of the sequential log. After damage it goes on at the next whole one."""
    file, offset, last = journal.file, journal.head.end, first_transaction(journal.file.path) - 1
    while offset < file.size:
        if file.read(offset, 1)[0] == COMPLETE and offset + 1 == file.size:
            return
        try:
            transaction = _sequential_at(journal, offset)
        except NotWhole as error:
            following = _next_sequential(journal, offset + 1, last)
            offset = _skipped(file, offset, following, error, report)
        else:
            yield transaction
            last, offset = transaction.number, transaction.end


def minimal_locking(journal: Journal, report: Report) -> Iterator[Transaction]:
    """The transactions of a journal of the log with minimal locking. After damage it goes on at the next whole one."""
    file, offset, last = journal.file, journal.head.end, -1
    starts = NextOf(file, first_bytes(journal.head.schema))
    while offset < file.size:
        try:
            transaction = _minimal_at(journal, offset)
        except NotWhole as error:
            following = _next_minimal(journal, offset + 1, last, starts)
            offset = _skipped(file, offset, following, error, report)
        else:
            yield transaction
            last, offset = transaction.number, transaction.end


def _skipped(file: SourceFile, offset: int, following: int, error: NotWhole, report: Report) -> int:
    """Report bytes that are no transaction, and return where to go on."""
    if following < 0 and (isinstance(error, EndsEarly) or file.skip(offset, 0) == file.size):
        report.torn(file.path, offset, "the last transaction is not complete")
        return file.size
    end = file.size if following < 0 else following
    report.damaged(file.path, offset, end, error.what)
    return end


def _sequential_at(journal: Journal, offset: int) -> Transaction:
    file = journal.file
    cursor = Cursor(file, offset)
    if (kind := cursor.take(1)[0]) != FOLLOWS:
        raise NotWhole(f"no transaction begins with the byte {kind}")
    number, size = cursor.number(_NUMBER_BYTES), cursor.number(4)
    if number < 0 or size <= 0:
        raise NotWhole(f"the transaction {number} has the length {size}")
    end = cursor.offset + size
    if end > file.size:
        raise EndsEarly("the file ends in a transaction")
    edits: list[PlacedEdit] = []
    inner = Cursor(file, cursor.offset, end)
    try:
        while inner.offset < end:
            edits += journal.edits(inner)
    except EndsEarly as error:
        raise NotWhole(error.what) from error
    return Transaction(number, edits, end)


def _next_sequential(journal: Journal, start: int, last: int) -> int:
    """The offset of the next whole transaction after the number `last`, -1 if there is none."""
    needle = bytes([FOLLOWS]) + max(0, last + 1).to_bytes(_NUMBER_BYTES, "big")[:5]
    at = start
    while (at := journal.file.find(needle, at)) >= 0:
        if _is_next(journal, at, last, _sequential_at):
            return at
        at += 1
    return -1


def _minimal_at(journal: Journal, offset: int) -> Transaction:
    cursor = Cursor(journal.file, offset)
    number = cursor.number(_NUMBER_BYTES)
    if number < 0:
        raise NotWhole(f"a transaction has the number {number}")
    edits: list[PlacedEdit] = []
    flag = CONTINUES
    while flag == CONTINUES:
        edits += journal.edits(cursor)
        flag = cursor.take(1)[0]
    if flag != COMMITS:
        raise NotWhole(f"behind a record stands the byte {flag}")
    return Transaction(number, edits, cursor.offset)


def _next_minimal(journal: Journal, start: int, last: int, starts: NextOf) -> int:
    """The offset of the next whole transaction after the number `last`, -1 if there is none."""
    at = start + _NUMBER_BYTES
    while (at := starts.after(at)) >= 0:
        if _is_next(journal, at - _NUMBER_BYTES, last, _minimal_at):
            return at - _NUMBER_BYTES
        at += 1
    return -1


def _is_next(journal: Journal, offset: int, last: int, read: Callable[[Journal, int], Transaction]) -> bool:
    number = int.from_bytes(journal.file.read(offset + (read is _sequential_at), _NUMBER_BYTES), "big")
    if not last < number <= last + _MOST_SKIPPED and last >= 0:
        return False
    try:
        read(journal, offset)
    except NotWhole:
        return False
    return True
