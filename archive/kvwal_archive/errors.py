"""The root of all errors, and the errors of the archive.

A caller wants one root to catch, and `archive` may not import `kvwal`. So the root stands here. `kvwal.errors` adds the errors
of the log and the store to the same tree, and draws it.
"""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """The kind of an error, by what the caller does next. The command line maps each kind to one exit code."""

    RETRY = "retry"  # try again, or reopen: nothing is wrong with the call
    CALLER = "caller"  # correct the call, the name or the configuration
    DAMAGE = "damage"  # repair: data on a disk or in a bucket is not what was written there
    BUG = "bug"  # report it: it is a bug of kvwal


class KvwalError(Exception):
    """Root of every error that kvwal raises on purpose.

    `hint` says what to do next; it is part of `str(error)`.
    """

    kind = Kind.BUG
    others: tuple[BaseException, ...] = ()
    """The other failures of the same call, for example those of other businesses in `close`."""

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what} {self.hint}" if self.hint else self.what


class ConfigError(KvwalError):
    """A setting, or a combination of settings, that cannot work."""

    kind = Kind.CALLER


class InvalidName(ConfigError):
    """A namespace, cluster, business or node name that is not allowed on disk and in a bucket."""


class WrongType(ConfigError, TypeError):
    """An argument of a type that is not accepted. It is a `TypeError` too, as from Python's own functions."""


class NewerVersion(ConfigError):
    """A file or object that a newer version of kvwal wrote. It is whole, but this version cannot read it: upgrade."""


class ArchiveError(KvwalError):
    """The archive could not be reached, or an object in it is not what was put there."""

    kind = Kind.RETRY


class ArchiveDamaged(ArchiveError):
    """An object of the archive is not what its name and footer say."""

    kind = Kind.DAMAGE


class ArchiveGap(ArchiveError):
    """Changes of a range of the log cannot be read: no object has them, or a member is away that has them on its disk only."""

    kind = Kind.DAMAGE


class BeforeHistory(ArchiveGap):
    """A read of a moment before the kept history: older changes were compacted. Nothing is damaged."""

    kind = Kind.CALLER
