"""Settings, checked once and frozen: a store that opened has settings that can work."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from archive.objects import check_url
from kvwal.errors import ConfigError, WrongType

KIB = 1 << 10
MIB = 1 << 20
LEAST_SEGMENT = 64 * KIB
"""Bytes below which a segment would hold little but its header and seal."""


MOST_BYTES = 1 << 60
MOST_SECONDS = 100 * 366 * 86400.0
"""A hundred years: what waits longer waits for ever, and a timer cannot be set so far ahead."""


def is_count(value: object) -> bool:
    """Whether it is a whole number above 0, of bytes, slots or milliseconds: no bool, and no float that happens to be whole."""
    return type(value) is int and 0 < value <= MOST_BYTES


def is_seconds(value: object) -> bool:
    """Whether it is a number of seconds above 0 that a timer can wait: no bool, no NaN, no infinity."""
    return isinstance(value, int | float) and type(value) is not bool and 0 < value <= MOST_SECONDS


class Interval(msgspec.Struct, frozen=True):
    """Flush policy: acknowledge after the write, fdatasync after `ms` milliseconds or `bytes` bytes, whichever is first.

    A crash of the machine loses at most that much of what was acknowledged; a crash of the process loses nothing.
    """

    ms: int = 100
    bytes: int = MIB

    def __post_init__(self) -> None:
        if not (is_count(self.ms) and is_count(self.bytes) and is_seconds(self.ms / 1000)):
            raise ConfigError(
                f"Interval(ms={self.ms!r}, bytes={self.bytes!r}): both must be whole numbers, at least 1."
            )


Flush: TypeAlias = Literal["sync", "os"] | Interval
"""When a write is acknowledged: after fdatasync, after the write with the kernel flushing, or after the write with a timer."""


def check_flush(flush: object) -> Flush:
    """`flush` if it is a policy, else `ConfigError`."""
    if isinstance(flush, Interval):
        return flush
    if flush == "sync":
        return "sync"
    if flush == "os":
        return "os"
    raise ConfigError(f"flush={flush!r} is no flush policy.", hint="Use 'sync', 'os' or kvwal.Interval(ms=…, bytes=…).")


def check_folder(what: str, folder: object) -> Path:
    """A folder's absolute path. `WrongType` for what is no name of one, `ConfigError` for an empty one."""
    if not isinstance(folder, str | PathLike) or isinstance(path := fspath(folder), bytes):
        raise WrongType(f"{what}={folder!r} is no name of a folder.", hint="Give text or a pathlib.Path.")
    if path == "":
        raise ConfigError(f"the {what} is an empty name.", hint='Name a folder; "." is the current one.')
    return Path(path).absolute()


def archive_location(archive: object) -> str:
    """The URL of an archive, or the absolute path of its folder. `ConfigError`, as `check_folder`."""
    if isinstance(archive, bool):
        raise WrongType(f"archive={archive!r} names no archive.", hint="Give a folder, a URL, or None for no archive.")
    if isinstance(archive, str) and "://" in archive:
        check_url(archive)
        return archive
    path = str(check_folder("archive", archive))
    check_url(str(archive))
    return path


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be tuned, with the default of each. Sizes are bytes, times are seconds."""

    segment_bytes: int = 64 * MIB
    """A segment is sealed at this size; the first ones of a log are smaller, and grow with its write rate."""
    ring_slots: int = 1024
    """Submissions that may wait for the log writer before producers wait."""
    ring_bytes: int = 64 * MIB
    """Bytes of keys and values that may wait for the log writer before producers wait."""
    ring_seconds: float = 60.0
    """How long a producer waits for room among them before `Overloaded` is raised."""
    overflow_bytes: int = 5 * MIB
    """A transaction above this size is refused with `TooLarge`."""
    checkpoint_seconds: float = 120.0
    """A business that was written to is checkpointed at least this often, when that is worth its cost."""
    checkpoint_bytes: int = 256 * MIB
    """Or as soon as this much log came since its last snapshot."""
    archive_seconds: float = 60.0
    """A segment with entries is sealed and archived after this time: what a lost disk costs."""
    history_seconds: float = 7 * 86400.0
    """How far back the archive keeps every change; older history is rewritten to the latest entry of each key."""
    gc_grace_seconds: float = 3600.0
    """A superseded object of the archive is kept this long for readers that still use it."""
    max_skew_seconds: float = 10.0
    """How far ahead of the wall clock a log's last timestamp may lie when it is opened."""
    reserve_bytes: int | None = None
    """Bytes of the disk that writes leave free, for checkpoint, archive and recovery; None is the smaller of 64 MiB and 5 % of
    it, 0 is none. A segment is never larger than the reserve: recovery must have room to copy one."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.endswith("_seconds") and not is_seconds(value):
                raise ConfigError(f"settings: {name}={value!r} must be a number of seconds, above 0 and finite.")
            if not name.endswith("_seconds") and name != "reserve_bytes" and not is_count(value):
                raise ConfigError(
                    f"settings: {name}={value!r} must be a whole number above 0.",
                    hint="Write 1000000 or 1 << 20, not 1e6.",
                )
        reserve = self.reserve_bytes
        none = type(reserve) is int and reserve == 0
        if reserve is not None and not none and not is_count(reserve):
            raise ConfigError(f"settings: reserve_bytes={reserve!r} must be a number of bytes, 0 for none, or None.")
        if self.segment_bytes < LEAST_SEGMENT:
            raise ConfigError(f"settings: segment_bytes={self.segment_bytes} is below 64 KiB.")
        if self.overflow_bytes > 5 * MIB:
            raise ConfigError(
                f"settings: overflow_bytes={self.overflow_bytes} is above 5 MiB, which one block can hold."
            )
