"""Folders of SeaTunnel's log: `<namespace>/<cluster>/<business>/<region>/wal.txt`. A region is one start of one node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kvwal.importers.source import folders_in, names_in
from kvwal.ports.disk import Disk

_FILE = re.compile(r"(?:([0-9]+)_)?wal\.txt")
"""`wal.txt`; in object storage `1_wal.txt`, `2_wal.txt` and so on."""


class BusinessLog(NamedTuple):
    """A business of SeaTunnel: its name, and its files in the order of their regions."""

    name: str
    files: list[Path]


def business_logs(disk: Disk, folder: Path) -> list[BusinessLog]:
    """The businesses of a folder, which is that of one business, or of a cluster; none if it is neither."""
    if files := _files_of(disk, folder):
        return [BusinessLog(folder.name, files)]
    return [BusinessLog(each.name, files) for each in folders_in(disk, folder) if (files := _files_of(disk, each))]


def is_log(disk: Disk, folder: Path) -> bool:
    """Whether a folder is that of a business, or of a cluster."""
    return bool(business_logs(disk, folder))


def _files_of(disk: Disk, business: Path) -> list[Path]:
    """The files of a business: by region, then by number."""
    regions = sorted(folders_in(disk, business), key=_by_number)
    return [region / name for region in regions for name in _names_of(disk, region)]


def _names_of(disk: Disk, region: Path) -> list[str]:
    found = [match for name in names_in(disk, region) if (match := _FILE.fullmatch(name))]
    return [match[0] for match in sorted(found, key=lambda match: int(match[1] or 0))]


def _by_number(region: Path) -> tuple[int, str]:
    """A region's name is a number that grows while the machine runs."""
    name = region.name
    return (int(name) if name.isascii() and name.isdecimal() else -1, name)
