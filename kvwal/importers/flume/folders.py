"""Folders of Flume's file channel: data folders with `log-<N>` and `log-<N>.meta`, and beside them the checkpoint."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.importers.source import folders_in, names_in
from kvwal.ports.disk import Disk

LOCK = "in_use.lock"
"""The file in each folder of a channel that a running Flume has locked."""
_LOG = re.compile(r"log-([0-9]{1,10})")


class LogPath(NamedTuple):
    """A log file, and the number in its name. Numbers go over all data folders of a channel."""

    number: int
    path: Path


def data_folders(disk: Disk, folder: Path) -> list[Path]:
    """The data folders of a channel: `folder` itself, or the folders in it that have logs."""
    if is_data(disk, folder):
        return [folder]
    return [each for each in folders_in(disk, folder) if is_data(disk, each)]


def log_paths(disk: Disk, folder: Path) -> list[LogPath]:
    """The log files of a channel, by number. Raises `ConfigError` for one of several data folders, and for several channels."""
    found = data_folders(disk, folder)
    if found == [folder]:
        others = [each for each in data_folders(disk, folder.parent) if each != folder]
        if others and not is_data(disk, folder.parent):
            raise ConfigError(
                f"{folder} is one of the {len(others) + 1} folders with logs in {folder.parent}: a channel's events and takes "
                "are in all of its data folders; nothing was imported.",
                hint=f"Name {folder.parent}. If they are of several channels, move the folders of one into a folder of its own.",
            )
    logs = sorted(LogPath(number, path) for each in found for number, path in _logs_of(disk, each))
    for one, other in pairwise(logs):
        if one.number == other.number:
            raise ConfigError(
                f"{one.path} and {other.path} have one number, so they are of two channels; nothing was imported.",
                hint="Move the data folders of one channel into a folder of its own, and name that.",
            )
    return logs


def is_data(disk: Disk, folder: Path) -> bool:
    """Whether a folder has log files."""
    return any(_LOG.fullmatch(name) and not disk.is_folder(folder / name) for name in names_in(disk, folder))


def is_log(disk: Disk, folder: Path) -> bool:
    """Whether a folder is a data folder, or has some."""
    return bool(data_folders(disk, folder))


def lock_files(disk: Disk, folder: Path) -> list[Path]:
    """The lock files of a channel that are there: those of the data folders, and of the checkpoint beside them."""
    folders = [folder, *folders_in(disk, folder)]
    return [each / LOCK for each in folders if disk.exists(each / LOCK)]


def _logs_of(disk: Disk, folder: Path) -> list[LogPath]:
    matches = ((_LOG.fullmatch(name), folder / name) for name in names_in(disk, folder))
    return [LogPath(int(match[1]), path) for match, path in matches if match and not disk.is_folder(path)]
