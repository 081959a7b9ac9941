"""Heads of the files of NiFi's write-ahead logs: which class wrote them, and the schema of their records.

Every file begins with the name and the version of the class of the log, and the name and the version of the serializer.
"""

from __future__ import annotations

from typing import NamedTuple

from kvwal.errors import ConfigError, NewerVersion
from kvwal.importers.nifi.cursor import Cursor
from kvwal.importers.nifi.schema import Schema, read_schema
from kvwal.importers.source import NotWhole, SourceFile

JOURNAL = "org.apache.nifi.wali.LengthDelimitedJournal"
SNAPSHOT = "org.apache.nifi.wali.HashMapSnapshot"
MINIMAL_LOCKING = "org.wali.MinimalLockingWriteAheadLog"
LOG_CLASSES = frozenset({JOURNAL, SNAPSHOT, MINIMAL_LOCKING})
SERIALIZER = "org.apache.nifi.controller.repository.SchemaRepositoryRecordSerde"
_ENCRYPTED = "Encrypted"
LOG_VERSION, SERIALIZER_VERSION = 1, 3


class ForeignHead(NotWhole):
    """The head of a file that kvwal cannot read: of a newer NiFi, or of another serializer. `refusal` says so to a user.

    One such file beside others is a damaged one. If there is no other, the repository is refused.
    """

    def __init__(self, refusal: ConfigError) -> None:
        super().__init__(refusal.what.removesuffix("; nothing was imported."))
        self.refusal = refusal


class JournalHead(NamedTuple):
    """The head of a journal. `end` is the offset of its first transaction."""

    schema: Schema
    end: int


class SnapshotHead(NamedTuple):
    """The head of a snapshot: the greatest transaction in it, and the number of its records. `end` is the offset of the first."""

    schema: Schema
    end: int
    last_transaction: int
    records: int


def journal_head(file: SourceFile) -> JournalHead:
    """The head of a journal. Raises `ForeignHead` if kvwal cannot read what wrote it, and `NotWhole` for other bytes."""
    cursor = Cursor(file, 0)
    if _classes(cursor) == JOURNAL:
        size = cursor.number(4)
        end = cursor.offset + size
        if not 0 <= size <= file.size - cursor.offset:
            raise NotWhole("the file ends in its head")
        schema = read_schema(Cursor(file, cursor.offset, end))
        return JournalHead(schema, end)
    schema = read_schema(cursor)
    return JournalHead(schema, cursor.offset)


def snapshot_head(file: SourceFile) -> SnapshotHead:
    """The head of a snapshot. Raises as `journal_head`."""
    cursor = Cursor(file, 0)
    _classes(cursor)
    last, records = cursor.number(8), cursor.number(4)
    if records < 0:
        raise NotWhole(f"the snapshot has {records:,} records")
    schema = read_schema(cursor)
    return SnapshotHead(schema, cursor.offset, last, records)


def _classes(cursor: Cursor) -> str:
    """The class of the log. Raises `ForeignHead` unless it, and the serializer, are of versions that kvwal reads."""
    log_class, version = cursor.text(), cursor.number(4)
    if log_class not in LOG_CLASSES:
        raise NotWhole("the file does not begin with the name of a log of NiFi")
    _check_version(cursor.file, "the log", version, LOG_VERSION)
    serializer, version = cursor.text(), cursor.number(4)
    path = cursor.file.path
    if serializer != SERIALIZER:
        if _ENCRYPTED in serializer:
            raise ForeignHead(
                ConfigError(
                    f"{path} is encrypted ({serializer}); nothing was imported.",
                    hint="Start NiFi once without encryption of its repositories, then import.",
                )
            )
        if not (serializer.isascii() and serializer.isprintable()):
            raise NotWhole("the name of the serializer is no name")
        raise ForeignHead(
            ConfigError(
                f"{path} was written by the serializer {serializer:.100}, and kvwal reads that of NiFi's FlowFile repository, "
                f"{SERIALIZER}; nothing was imported.",
                hint="Name the folder of nifi.flowfile.repository.directory.",
            )
        )
    _check_version(cursor.file, "its serializer", version, SERIALIZER_VERSION)
    return log_class


def _check_version(file: SourceFile, what: str, version: int, known: int) -> None:
    if 0 <= version <= known:
        return
    if version < 0 or version > 1_000:
        raise NotWhole(f"the version of {what} is {version}")
    raise ForeignHead(
        NewerVersion(
            f"{file.path}: {what} has the version {version} of a newer NiFi, and kvwal reads {known}; nothing was imported.",
            hint="Upgrade kvwal.",
        )
    )
