"""Figures of a store that can be read without its locks: the bytes of its files, and its positions."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from kvwal.history.reads.merged_scan import log_size
from kvwal.history.reads.tail_reader import read_log
from kvwal.log.files.names import log_folder
from kvwal.log.unlocked.sinks import Uncounted
from kvwal.ports.space import space_stats
from kvwal.store.options import Options
from kvwal_archive.layout import Place


def sizes_of_files(options: Options) -> dict[str, int | None]:
    """The bytes of the files of each business, by its name; None for a business whose folder this user may not read."""
    closed: set[str] = set()
    sizes: dict[str, int] = {}
    for place in options.places(closed=closed):
        of_node = options.reach(partial(log_size, options.disk, options.root, place))
        sizes[place.business] = sizes.get(place.business, 0) + of_node
    return dict(sorted({**sizes, **dict.fromkeys(closed)}.items()))


class FileStates(NamedTuple):
    """The files of all logs of a store: path, bytes and time of the last change of each; and the latest of these times.

    A log that was written to between two of them differs, unless both were taken within some milliseconds of the write.
    """

    files: tuple[tuple[str, int, int], ...]
    changed_ns: int


def states_of_files(options: Options) -> FileStates:
    """The states of the files of all logs that this user may read. No file is opened."""
    found = [state for place in options.places(closed=set()) for state in states_of_log(options, place).files]
    return FileStates(tuple(found), max((changed for _, _, changed in found), default=0))


def states_of_log(options: Options, place: Place) -> FileStates:
    """The states of the files of one log. No file is opened."""
    disk, folder, found = options.disk, log_folder(options.root, place), []
    for name in disk.names(folder):
        path = folder / name
        with suppress(FileNotFoundError):  # a checkpoint covers it, and has deleted it meanwhile
            found.append((str(path), disk.size(path), disk.changed_ns(path)))
    return FileStates(tuple(found), max((changed for _, _, changed in found), default=0))


def read_only_stats(options: Options) -> dict[str, Any]:
    """Numbers about a store that can be read without its locks. `unreadable` are the logs that this user may not read."""
    businesses: dict[str, dict[str, Any]] = {}
    closed: set[str] = set()
    unreadable: dict[str, str] = {}
    for place in options.places(closed=closed):
        try:
            tail = read_log(options.disk, options.root, place, Uncounted)
        except PermissionError as error:
            unreadable[place.business] = f"{error.filename}: {error.strerror}"
            continue
        businesses.setdefault(place.business, {})[place.node] = {
            "last_sequence": tail.following - 1,
            "snapshot_sequence": tail.snapshot.last_sequence if tail.snapshot else 0,
            "log_entries": tail.following - tail.first,
            "torn": tail.torn,
        }
    return {
        "root": str(options.root),
        "namespace": options.namespace,
        "cluster": options.cluster,
        "archive": options.archive_url,
        "disk": space_stats(options.disk, options.root, options.settings.reserve_bytes),
        "businesses": businesses,
        "unreadable": unreadable | dict.fromkeys(closed, "its folder may not be read"),
    }
