"""Errors of kvwal, as one tree of classes.

    KvwalError                      kind      what a caller does
    ├── ConfigError                 caller    correct the setting
    │   ├── InvalidName             caller    choose another name
    │   ├── WrongType               caller    pass the type that the message names; also a TypeError
    │   └── NewerVersion            caller    upgrade kvwal
    ├── CodecError                  caller    store a value that a codec can bring back
    ├── TooLarge                    caller    split the transaction
    ├── TransactionClosed           caller    begin a new transaction
    ├── StoreClosed                 caller    open the store first
    ├── WrongLoop                   caller    call from another thread, or from the loop that opened the store
    ├── StoreLocked                 retry     wait for, or stop, the process that holds the store
    ├── NotRecovered                retry     wait until recovery has ended
    ├── StorageFull                 retry     free space; nothing was written
    ├── Overloaded                  retry     write more slowly; nothing was written
    ├── QueueFull                   retry     wait until items are taken; nothing was written; also a queue.Full
    ├── ClusterUnreachable          retry     check that the nodes run; nothing was written
    │   └── ClusterRefused          caller    correct the cluster's name or the token
    ├── StartFailed                 retry     start the node again
    ├── LogFailed                   retry     reopen the store; reading goes on
    │   └── CommitUnknown           retry     reopen, then look whether the write is there
    ├── ClockSkew                   retry     correct the clock, wait until it has caught up, or accept it
    ├── CorruptLog                  damage    `kvwal log repair`
    ├── ContentFailed               retry     mend the disk; nothing was written
    ├── ContentDamaged              damage    `kvwal content verify`
    │   └── ContentMissing          damage    bring its file back, from the archive or a backup
    └── ArchiveError                retry     reach the archive
        ├── ArchiveDamaged          damage    `kvwal archive verify`
        └── ArchiveGap              damage    find the missing range, or bring the member back
            └── BeforeHistory       caller    ask for a later time

The errors that the archive also raises are defined in `kvwal_archive.errors`, because `archive` imports nothing of kvwal.
"""

from __future__ import annotations

import queue
from pathlib import Path

from kvwal_archive.errors import (
    ArchiveDamaged,
    ArchiveError,
    ArchiveGap,
    BeforeHistory,
    ConfigError,
    InvalidName,
    Kind,
    KvwalError,
    NewerVersion,
    WrongType,
)

__all__ = [
    "ArchiveDamaged",
    "ArchiveError",
    "ArchiveGap",
    "BeforeHistory",
    "ClockSkew",
    "ClusterRefused",
    "ClusterUnreachable",
    "CodecError",
    "CommitUnknown",
    "ConfigError",
    "ContentDamaged",
    "ContentFailed",
    "ContentGone",
    "ContentMissing",
    "CorruptLog",
    "InvalidName",
    "Kind",
    "KvwalError",
    "LogFailed",
    "NewerVersion",
    "NotRecovered",
    "Overloaded",
    "QueueFull",
    "StartFailed",
    "StorageFull",
    "StoreClosed",
    "StoreLocked",
    "TooLarge",
    "TransactionClosed",
    "WrongLoop",
    "WrongType",
]


EXIT_CODES = {Kind.CALLER: 2, Kind.RETRY: 3, Kind.DAMAGE: 4, Kind.BUG: 70}
"""Exit codes of commands, by the kind of the error that ended the command."""


class CodecError(KvwalError):
    """A key or value would not come back equal and of the same type, or the codec of some bytes is not registered here."""

    kind = Kind.CALLER


class TooLarge(KvwalError):
    """A value is larger than `value_bytes`, or a transaction than a cluster takes, 5 MiB, or than the capacity of a queue.

    Nothing of it was written.
    """

    kind = Kind.CALLER


class ContentGone(KvwalError):
    """The value of an item that is to be replayed is neither in the event nor in the log or the archive. Nothing was put."""

    kind = Kind.CALLER


class TransactionClosed(KvwalError):
    """A transaction object was used outside its `with` block, or in a second block. Nothing was written."""

    kind = Kind.CALLER


class StoreClosed(KvwalError):
    """The store is closed, or was opened in another process than the calling one."""

    kind = Kind.CALLER


class WrongLoop(KvwalError):
    """A call would wait for its own thread, or was made on another event loop than that of the asynchronous store."""

    kind = Kind.CALLER


class StoreLocked(KvwalError):
    """Another process holds the log of this business and node."""

    kind = Kind.RETRY


class NotRecovered(KvwalError):
    """The log is still being recovered. Reads and writes are refused until recovery has ended."""

    kind = Kind.RETRY


class StorageFull(KvwalError):
    """The disk has its reserve only, or the process no free file descriptor. Nothing was written; the log goes on by itself."""

    kind = Kind.RETRY


class Overloaded(KvwalError):
    """A write waited too long: in the queue of the log writer, or in a client of a cluster. Nothing was written."""

    kind = Kind.RETRY


class QueueFull(KvwalError, queue.Full):
    """A queue has no room for what was put: its capacity is reached. Nothing was written. It is a `queue.Full` of Python, too."""

    kind = Kind.RETRY


class ClusterUnreachable(KvwalError):
    """No member of the cluster answers, or no member that answers is a kvwal node. Nothing was written."""

    kind = Kind.RETRY


class ClusterRefused(ClusterUnreachable):
    """A member answered that it does not let this client in: the cluster has another name, or wants another token."""

    kind = Kind.CALLER


class StartFailed(KvwalError):
    """A node cannot start now: the other members do not let it join yet, or its address is not free or not there yet. Nothing was
    changed. The node can be started again later with the same configuration."""

    kind = Kind.RETRY


class LogFailed(KvwalError):
    """The log is poisoned: an earlier write or fsync failed. Reading goes on; reopening recovers what was acknowledged.

    `__cause__` is the error of the operating system.
    """

    kind = Kind.RETRY


class CommitUnknown(LogFailed):
    """The write was in the group that failed, or its answer from the cluster was lost. It is there completely, or not at all."""


class ClockSkew(KvwalError):
    """The log's last timestamp lies further ahead of the wall clock than `max_skew_seconds`, or the clocks of two members are
    further apart. Time mends the first: the clock catches up."""

    kind = Kind.RETRY


class CorruptLog(KvwalError):
    """A segment or snapshot is damaged: its bytes are not the ones that were written.

    `path` is the file, `offset` the byte at which the damage begins, `sequence` the number of the first unreadable entry (0 if it
    is not known).
    """

    kind = Kind.DAMAGE

    def __init__(self, what: str, *, path: Path | str, offset: int, sequence: int = 0, hint: str = "") -> None:
        super().__init__(
            f"{path}: at byte {offset}, sequence {sequence}: {what}",
            hint=hint
            or "Nothing was changed. `kvwal log verify` lists the damage, `kvwal log repair` offers what can be saved.",
        )
        self.path = Path(path)
        self.offset = offset
        self.sequence = sequence


class ContentFailed(KvwalError):
    """The bytes of a content could not be written to the disk. Nothing was logged, so no name leads to them."""

    kind = Kind.RETRY


class ContentDamaged(KvwalError):
    """The bytes of a content are not those that were written. Other contents can be read."""

    kind = Kind.DAMAGE


class ContentMissing(ContentDamaged):
    """The file with the bytes of a content is neither beside the log nor in the archive. Other contents can be read."""
