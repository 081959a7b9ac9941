"""Every error of kvwal, one tree.

    KvwalError                      kind      what a caller does
    ├── ConfigError                 caller    mend the setting
    │   ├── InvalidName             caller    choose another name
    │   ├── WrongType               caller    give what the sentence names; also a TypeError
    │   └── NewerVersion            caller    upgrade kvwal
    ├── CodecError                  caller    store something the codec can bring back
    ├── TooLarge                    caller    split the transaction
    ├── TransactionClosed           caller    begin a new transaction
    ├── StoreClosed                 caller    open the store first
    ├── WrongLoop                   caller    call from another thread, or from the loop that opened the store
    ├── StoreLocked                 retry     wait for, or stop, the process that holds the store
    ├── NotRecovered                retry     wait until recovery has ended
    ├── StorageFull                 retry     free space; nothing was written
    ├── Overloaded                  retry     write more slowly; nothing was written
    ├── ClusterUnreachable          retry     see whether the nodes run; nothing was written
    ├── LogFailed                   retry     reopen the store; reading goes on
    │   └── CommitUnknown           retry     reopen, then look whether the write is there
    ├── ClockSkew                   caller    mend the clock, or accept it
    ├── CorruptLog                  damage    `kvwal log repair`
    └── ArchiveError                retry     reach the archive
        ├── ArchiveDamaged          damage    `kvwal archive verify`
        └── ArchiveGap              damage    find the missing range
            └── BeforeHistory       caller    ask for a later time

Those that the archive raises too are defined in `archive.errors`, because `archive` imports no kvwal.
"""

from __future__ import annotations

from pathlib import Path

from archive.errors import (
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
    "ClusterUnreachable",
    "CodecError",
    "CommitUnknown",
    "ConfigError",
    "CorruptLog",
    "InvalidName",
    "Kind",
    "KvwalError",
    "LogFailed",
    "NewerVersion",
    "NotRecovered",
    "Overloaded",
    "StorageFull",
    "StoreClosed",
    "StoreLocked",
    "TooLarge",
    "TransactionClosed",
    "WrongLoop",
    "WrongType",
]


EXIT_CODES = {Kind.CALLER: 2, Kind.RETRY: 3, Kind.DAMAGE: 4, Kind.BUG: 70}
"""With which a process ends that ends with an error of that kind."""


class CodecError(KvwalError):
    """A key or value that would not come back equal and of the same type, or bytes whose codec is unknown here."""

    kind = Kind.CALLER


class TooLarge(KvwalError):
    """A transaction above `overflow_bytes`. Nothing of it was written."""

    kind = Kind.CALLER


class TransactionClosed(KvwalError):
    """A transaction object was used outside its `with` block, or for a second one. Nothing was written."""

    kind = Kind.CALLER


class StoreClosed(KvwalError):
    """The store was closed, or was opened in another process than the one that calls it."""

    kind = Kind.CALLER


class WrongLoop(KvwalError):
    """A call that would wait for the very thread it is made on, or on another event loop than the asynchronous store's."""

    kind = Kind.CALLER


class StoreLocked(KvwalError):
    """Another process holds the log of this business and node."""

    kind = Kind.RETRY


class NotRecovered(KvwalError):
    """The log has not been read to its end yet; until then neither reads nor writes are answered."""

    kind = Kind.RETRY


class StorageFull(KvwalError):
    """The disk has no room, or the process no file descriptor. Nothing was written, and the log goes on when there is one."""

    kind = Kind.RETRY


class Overloaded(KvwalError):
    """For `ring_seconds` there was no room among what waits for the log writer. Nothing was written."""

    kind = Kind.RETRY


class ClusterUnreachable(KvwalError):
    """No member of the cluster answers, or none that is a node of kvwal. Nothing was written."""

    kind = Kind.RETRY


class LogFailed(KvwalError):
    """The log is poisoned: an earlier write or fsync failed. Reading goes on; reopening recovers what was acknowledged.

    `__cause__` is the error of the operating system.
    """

    kind = Kind.RETRY


class CommitUnknown(LogFailed):
    """The write was in the group that failed: after a reopen it is there whole, or not at all."""


class ClockSkew(KvwalError):
    """The log's last timestamp lies further ahead of the wall clock than `max_skew_seconds`."""

    kind = Kind.CALLER


class CorruptLog(KvwalError):
    """Bytes of a segment or snapshot that are not what was written there.

    `path` is the file, `offset` the byte at which the damage begins, `sequence` the number of the first entry that cannot be
    read (0 where it is not known).
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
