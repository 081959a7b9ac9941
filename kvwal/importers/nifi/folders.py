"""Folders of NiFi's write-ahead logs.

`SequentialAccessWriteAheadLog`: `checkpoint` and `journals/<first transaction>.journal`, beside them `journals/overflow-<N>/`.
`MinimalLockingWriteAheadLog`, of NiFi 1: `snapshot` and `partition-<N>/<M>.journal`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kvwal.importers.source import folders_in, names_in
from kvwal.ports.disk import Disk

JOURNALS = "journals"
LOCK = "wali.lock"
"""The file that a running NiFi with the minimal-locking log has locked."""
_JOURNAL = re.compile(r"([0-9]{1,19})\.journal")
_PARTITION = re.compile(r"partition-([0-9]{1,9})")
_SNAPSHOTS = ("checkpoint", "snapshot")
_PARTIAL = ".partial"


class Repository(NamedTuple):
    """The files of a log. `journals` has a list for each partition; the sequential log has one partition."""

    snapshot: Path | None
    journals: list[list[Path]]
    sequential: bool


def repository(disk: Disk, folder: Path) -> Repository:
    """The files of a repository. A snapshot that is not finished counts only if there is no other one, as for NiFi."""
    sequential = JOURNALS in names_in(disk, folder)
    name = _SNAPSHOTS[0 if sequential else 1]
    found = [folder / each for each in (name, name + _PARTIAL) if disk.exists(folder / each)]
    if sequential:
        partitions = [folder / JOURNALS]
    else:
        matches = [(match, each) for each in folders_in(disk, folder) if (match := _PARTITION.fullmatch(each.name))]
        partitions = [each for match, each in sorted(matches, key=lambda pair: int(pair[0][1]))]
    journals = [_journals_of(disk, each) for each in partitions]
    return Repository(found[0] if found else None, journals, sequential)


def first_transaction(journal: Path) -> int:
    """The number in the name of a journal: of the sequential log, its first transaction."""
    return int(journal.name.partition(".")[0])


def overflow_file(journal: Path, name: str) -> Path:
    """Where a journal's overflow file is. NiFi wrote its absolute path, which may have been that of another machine."""
    return journal.parent / f"overflow-{journal.name.partition('.')[0]}" / re.split(r"[/\\]", name)[-1]


def is_log(disk: Disk, folder: Path) -> bool:
    """Whether a folder is a repository."""
    names = names_in(disk, folder)
    if JOURNALS in names and (names_in(disk, folder / JOURNALS) or _SNAPSHOTS[0] in names):
        return any(_JOURNAL.fullmatch(name) for name in names_in(disk, folder / JOURNALS)) or _SNAPSHOTS[0] in names
    return any(_PARTITION.fullmatch(name) and _journals_of(disk, folder / name) for name in names)


def lock_files(disk: Disk, folder: Path) -> list[Path]:
    """The lock file, if it is there."""
    return [folder / LOCK] if disk.exists(folder / LOCK) else []


def _journals_of(disk: Disk, folder: Path) -> list[Path]:
    found = [match for name in names_in(disk, folder) if (match := _JOURNAL.fullmatch(name))]
    return [folder / match[0] for match in sorted(found, key=lambda match: int(match[1]))]
