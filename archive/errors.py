"""The errors that both packages raise.

`archive` stands below `kvwal` and may not import it, and a caller wants one root to catch. So the root lives here, and
`kvwal.errors` adds the errors of the log and the store to the same tree (drawn there).
"""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """Whose move it is. The command line maps each kind to one exit code."""

    RETRY = "retry"  # nothing is wrong with the call: try again, or reopen
    CALLER = "caller"  # fix the call, the name, the configuration
    DAMAGE = "damage"  # data on a disk or in a bucket is not what was written there
    BUG = "bug"  # ours: please report it


class KvwalError(Exception):
    """Root of every error that kvwal raises on purpose.

    `hint` says what to do next; it is part of `str(error)`.
    """

    kind = Kind.BUG
    others: tuple[BaseException, ...] = ()
    """What else failed in the same call: a `close` tells the failures of all businesses."""

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
    """An argument of a type that stands for nothing here. A `TypeError` too, as Python's own functions raise."""


class NewerVersion(ConfigError):
    """A file or object that a newer version of kvwal wrote. It is whole, only not readable here: upgrade."""


class ArchiveError(KvwalError):
    """The archive could not be reached, or holds something that is not what was put there."""

    kind = Kind.RETRY


class ArchiveDamaged(ArchiveError):
    """An object of the archive is not what its name and footer say."""

    kind = Kind.DAMAGE


class ArchiveGap(ArchiveError):
    """A range of the log is in no object of the archive."""

    kind = Kind.DAMAGE


class BeforeHistory(ArchiveGap):
    """A moment was asked for that lies before what is kept of every change. Nothing is damaged."""

    kind = Kind.CALLER
