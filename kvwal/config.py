"""Settings of a store: immutable, and checked at creation, so that an open store has valid settings."""

from __future__ import annotations

import re
from os import PathLike, fspath
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from kvwal.errors import ConfigError, WrongType
from kvwal_archive.objects import check_url, typed_path

KIB = 1 << 10
MIB = 1 << 20
TRANSACTION_BYTES = 5 * MIB
"""The limit of what one block of the log holds, in bytes as `kvwal.log.submission.size_of` counts them. Others come from it:

- `Settings.value_bytes`, and the size of a transaction of a cluster: more is refused with `TooLarge`.
- `Settings.overflow_bytes`: a larger transaction goes into an overflow file.
- `PendingEntry.MAX_BYTES` in Java: one change of a cluster's map, or the intent that holds all changes of a transaction.
- `kvwal.spark.sink.rows.ROW_BYTES`: a row beside the marks of a write.
- The longest field of a CSV file that `kvwal import` reads.

One block of the log holds any such transaction (`MAX_PAYLOAD` of `kvwal.log.files.format`, 16 MiB): an entry takes there at most
2.7 times what `size_of` counts.
"""
LEAST_SEGMENT = 64 * KIB
"""The smallest `segment_bytes`. A smaller segment would have little besides its header and seal."""
MOST_BYTES = 1 << 60
MOST_SECONDS = 100 * 366 * 86400.0
"""The longest duration in seconds, about a hundred years: timers cannot be set further ahead."""


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def parse_duration(text: str) -> float | None:
    """The seconds of a typed duration: `250ms`, `90s`, `15m`, `1.5h`, `7d`, `4w`. Else None, also above 100 years."""
    typed = _DURATION.fullmatch(text)
    seconds = float(typed[1]) * _UNIT_SECONDS[typed[2]] if typed else None
    return seconds if seconds is not None and seconds <= MOST_SECONDS else None


def is_count(value: object) -> bool:
    """Whether `value` is an int above 0 (of bytes, slots or milliseconds). A bool and a float are no counts."""
    return type(value) is int and 0 < value <= MOST_BYTES


def is_seconds(value: object) -> bool:
    """Whether `value` is a number of seconds above 0 that a timer can wait. A bool, NaN and infinity are not."""
    return isinstance(value, int | float) and type(value) is not bool and 0 < value <= MOST_SECONDS


class Interval(msgspec.Struct, frozen=True):
    """Flush policy: acknowledge after the write, fdatasync after `ms` milliseconds, or after `bytes` bytes if those come first.

    A crash of the machine loses at most the acknowledged writes of that time or size; a crash of the process loses nothing.
    """

    ms: int = 100
    bytes: int = MIB

    def __post_init__(self) -> None:
        if not (is_count(self.ms) and is_count(self.bytes) and is_seconds(self.ms / 1000)):
            raise ConfigError(
                f"Interval(ms={self.ms!r}, bytes={self.bytes!r}): both must be whole numbers, at least 1."
            )


Flush: TypeAlias = Literal["sync", "os"] | Interval
"""Flush policy, which says when a write is acknowledged: "sync", after fdatasync; "os", after the write, and the kernel flushes;
`Interval`, after the write, and a timer or a number of bytes triggers the fdatasync."""


def _check_folders(folders: object) -> None:
    if not isinstance(folders, tuple) or not all(isinstance(one, str) and Path(one).is_absolute() for one in folders):
        raise ConfigError(
            f"settings: content_folders={folders!r} must be a tuple of absolute paths.",
            hint='Write ("/mnt/disk-2/kvwal",) for one folder.',
        )
    if len(set(map(Path, folders))) < len(folders):
        raise ConfigError(f"settings: content_folders={folders!r} names a folder twice.")


def _is_zero(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and value == 0


def check_flush(flush: object) -> Flush:
    """`flush`, if it is a flush policy. Raises `ConfigError` otherwise."""
    if isinstance(flush, Interval):
        return flush
    if flush == "sync":
        return "sync"
    if flush == "os":
        return "os"
    raise ConfigError(f"flush={flush!r} is no flush policy.", hint="Use 'sync', 'os' or kvwal.Interval(ms=…, bytes=…).")


def check_folder(what: str, folder: object) -> Path:
    """The absolute path of a folder. `WrongType` if `folder` is neither text nor a path, `ConfigError` if it can be no name."""
    if not isinstance(folder, str | PathLike) or isinstance(path := fspath(folder), bytes):
        raise WrongType(f"{what}={folder!r} is no name of a folder.", hint="Give text or a pathlib.Path.")
    try:
        return typed_path(what, folder).absolute()
    except FileNotFoundError as error:
        raise ConfigError(
            f"{what}={path!r} is below the current folder, which was deleted.",
            hint="Name the folder by its whole path, or start the program in a folder that exists.",
        ) from error


def check_file(what: str, file: str) -> Path:
    """The path of a file that was typed, a leading `~` expanded. `ConfigError` for an empty name and for an address."""
    return typed_path(what, file, "file")


def archive_location(archive: object) -> str:
    """The URL of an archive, or the absolute path of its folder. Raises the errors of `check_folder`, and `ConfigError` for a
    URL that is not one of an archive.
    """
    if isinstance(archive, bool):
        raise WrongType(f"archive={archive!r} names no archive.", hint="Give a folder, a URL, or None for no archive.")
    if not isinstance(archive, str):
        path = check_folder("archive", archive)
        check_url(str(archive))
        return str(path)
    check_url(archive)
    return archive if "://" in archive else str(check_folder("archive", archive))


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a store, with their defaults. Sizes are in bytes, times in seconds."""

    segment_bytes: int = 64 * MIB
    """A segment is sealed at this size. The first segments of a log are smaller, and grow with its write rate."""
    ring_slots: int = 1024
    """Slots of the ring. A slot has the writes of a call, or of a tick of an event loop; producers wait when all are taken."""
    ring_bytes: int = 64 * MIB
    """Bytes of keys and values that may wait for the log writer before producers wait."""
    ring_seconds: float = 60.0
    """How long a producer waits for space in the ring before `Overloaded` is raised."""
    value_bytes: int = TRANSACTION_BYTES
    """A key and its value above this size together are refused with `TooLarge`, unless the value stands beside the log."""
    overflow_bytes: int = TRANSACTION_BYTES
    """A transaction above this size is written into a file of its own, which the log names."""
    inline_bytes: int = 256 * KIB
    """A value of a map or a queue above this size stands beside the log, as contents do: the log and its copies have a claim."""
    queue_memory: int = 20_000
    """Items of a queue that stay in memory: above that only the first and the newest ones do, and the others are read again."""
    checkpoint_seconds: float = 120.0
    """A business that was written to is checkpointed at least this often, if that is worth its cost."""
    checkpoint_bytes: int = 256 * MIB
    """A business is also checkpointed when its log has grown by this many bytes since its last snapshot."""
    archive_seconds: float = 60.0
    """A segment with entries is sealed and archived after this time, which is what a lost disk costs while the archive answers.

    In a cluster of several members a segment below 64 KiB waits five times as long.
    """
    history_seconds: float = 7 * 86400.0
    """How far back the archive keeps every change. Of older history only the latest entry of each key is kept."""
    gc_grace_seconds: float = 3600.0
    """How long a superseded object of the archive is kept for readers that still use it."""
    content_keep_seconds: float = 0.0
    """How long the bytes of contents stay beside the log that only history names; 0: until the next checkpoints."""
    content_keep_percent: int = 50
    """Of these bytes the oldest go sooner while more than this part of the disk is taken, by any files."""
    content_folders: tuple[str, ...] | None = None
    """Further folders for the bytes of contents, each on a disk of its own. None: those that hold some already."""
    max_skew_seconds: float = 10.0
    """How far ahead of the wall clock a log's last timestamp may lie when it is opened."""
    reserve_bytes: int | None = None
    """Bytes of the disk that writes leave free, for checkpoint, archive and recovery. None means the smaller of 64 MiB and 5 % of
    the disk; 0 means no reserve. With a reserve a segment is never larger than it, because recovery needs space to copy one."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            may_be_0 = name == "content_keep_seconds"
            if name.endswith("_seconds") and not (is_seconds(value) or (may_be_0 and _is_zero(value))):
                least = "0 or more" if may_be_0 else "above 0"
                raise ConfigError(f"settings: {name}={value!r} must be a number of seconds, {least} and finite.")
            if not name.endswith(("_seconds", "_folders")) and name != "reserve_bytes" and not is_count(value):
                raise ConfigError(
                    f"settings: {name}={value!r} must be a whole number above 0.",
                    hint="Write 1000000 or 1 << 20, not 1e6.",
                )
        if self.content_folders is not None:
            _check_folders(self.content_folders)
        if self.content_keep_percent > 100:
            raise ConfigError(f"settings: content_keep_percent={self.content_keep_percent} is above 100.")
        reserve = self.reserve_bytes
        if reserve is not None and not (type(reserve) is int and reserve == 0) and not is_count(reserve):
            raise ConfigError(f"settings: reserve_bytes={reserve!r} must be a number of bytes, 0 for none, or None.")
        if self.segment_bytes < LEAST_SEGMENT:
            raise ConfigError(f"settings: segment_bytes={self.segment_bytes} is below 64 KiB.")
        for name in ("value_bytes", "overflow_bytes"):
            if (value := getattr(self, name)) > TRANSACTION_BYTES:
                most = f"{TRANSACTION_BYTES // MIB} MiB"
                raise ConfigError(f"settings: {name}={value} is above {most}, which one block can hold.")
