"""Survey of a root: the holders of locks, the folders of logs, the owners of files, the space on the disk."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import InvalidName
from kvwal.history.restore.restore import STAGE as RESTORING
from kvwal.log.files.names import LOCK
from kvwal.ports.disk import OS_DISK
from kvwal.ports.posix.file_locks import held_by
from kvwal.ports.space import space_stats
from kvwal.scrub.diagnose import NOTE, OK, PROBLEM, Finding
from kvwal.scrub.repair import STAGE as SAVING
from kvwal.scrub.units import size
from kvwal.store.root_nodes.merge import MERGED
from kvwal_archive.layout import Place, check_name

BENCH_PREFIX = ".bench-"
"""Start of the name of the folder in which `bench` measures."""
_ROOT = 0
LITTLE_FREE = 1 << 30
"""Usable bytes below which a disk counts as nearly full: a large segment, its successor and a snapshot."""


class Survey(NamedTuple):
    """The logs under a root, and the findings of the walk to them."""

    places: list[Place]
    findings: list[Finding]


def lock_holder(folder: Path) -> str:
    """The holder of the lock on the log in `folder`, in its own words; empty for a free lock. Takes no lock itself."""
    return held_by(folder / LOCK)


def survey(root: Path) -> Survey:
    """Every folder that can hold a log, four levels down, and a finding for each file or folder that does not belong there."""
    folders: list[tuple[str, ...]] = [()]
    findings: list[Finding] = []
    for level in range(len(Place._fields)):
        deeper: list[tuple[str, ...]] = []
        for parts in folders:
            for name in _names(root.joinpath(*parts), findings):
                path = root.joinpath(*parts, name)
                hidden = level == 0 and name[0] in "_."
                finding = _at_root(path) if hidden else _misplaced(path)
                findings += [finding] if finding is not None else []
                deeper += [] if hidden or finding is not None else [(*parts, name)]
        folders = deeper
    return Survey([Place(*parts) for parts in folders], findings)


def _names(folder: Path, findings: list[Finding]) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        todo = "Run doctor as the user that runs the store, or mend owner and mode."
        text = f"user {_user(os.geteuid())} cannot look into it ({error.strerror})."
        findings.append(Finding(PROBLEM, str(folder), text, todo))
        return []


def _at_root(path: Path) -> Finding | None:
    """A finding for the folder of an unfinished command. Other names that begin with `_` or `.` are ignored, as everywhere."""
    if path.name in (RESTORING, SAVING):
        what = "restore" if path.name == RESTORING else "repair"
        return Finding(
            NOTE, str(path), f"a {what} was not finished here, or is under way.", "Run it again, or delete it."
        )
    if path.name.startswith(BENCH_PREFIX):
        return Finding(NOTE, str(path), "a bench was not finished here, or is under way.", "Delete it.")
    return None


def _misplaced(path: Path) -> Finding | None:
    if not path.is_dir():
        return Finding(NOTE, str(path), "it is no folder of a log; nothing reads it.", "Move it elsewhere.")
    if path.name == MERGED:
        return Finding(
            NOTE,
            str(path),
            "a merge of nodes was not finished here, or is under way.",
            "Nothing: the next merge of nodes removes it.",
        )
    try:
        check_name("folder", path.name)
    except InvalidName:
        return Finding(NOTE, str(path), "it has no name that kvwal gives; nothing reads it.", "Move it elsewhere.")
    return None


def check_folders(root: Path) -> Iterator[Finding]:
    """Findings for folders, and for files outside of logs, that the owner of the folder above may not use.

    A command of another user, often root, leaves them. What is in such a folder is not looked at: the remedy is for all of it.
    """
    root = root.absolute()
    yield from _of_another(root, root.parent)
    for text, folders, files in os.walk(root):
        parent = Path(text)
        is_log = (
            len(parent.relative_to(root).parts) == len(Place._fields) and parent.relative_to(root).parts[0][0] != "_"
        )
        found = {name: list(_of_another(parent / name, parent)) for name in [*folders, *([] if is_log else files)]}
        folders[:] = [name for name in folders if not found[name]]
        for findings in found.values():
            yield from findings


def _of_another(path: Path, folder: Path) -> Iterator[Finding]:
    state, above = _state(path), _state(folder)
    if state is None or above is None or above.st_uid in (_ROOT, state.st_uid):
        return
    by_group = state.st_gid == above.st_gid and state.st_mode & 0o060 == 0o060
    if by_group or state.st_mode & 0o006 == 0o006:
        return
    text = (
        f"it belongs to {_user(state.st_uid)} (mode {stat.S_IMODE(state.st_mode):o}), and the folder that it is in to"
        f" {_user(above.st_uid)}, who may not use it."
    )
    yield Finding(PROBLEM, str(path), text, _chown(above, path))


def _chown(above: os.stat_result, path: Path) -> str:
    return f"sudo chown -R {_user(above.st_uid)}:{_group(above.st_gid)} {shlex.quote(str(path))}"


def check_owners(about: str, folder: Path) -> Iterator[Finding]:
    """Findings for files of a log that its store may not be allowed to open, or that every user may write."""
    states = {path: state for path in (folder, *sorted(folder.iterdir())) if (state := _state(path)) is not None}
    own = states[folder]
    others = {path.name: state for path, state in states.items() if state.st_uid != own.st_uid}
    if others:
        owners = sorted({f"{_user(state.st_uid)} (mode {stat.S_IMODE(state.st_mode):o})" for state in others.values()})
        text = (
            f"{_some(list(others))} of another user than the folder: of {', '.join(owners)}; the folder is of"
            f" {_user(own.st_uid)}, whose store may not be able to open it."
        )
        yield Finding(PROBLEM, about, text, _chown(own, folder))
    wanted = os.R_OK if is_read_only(folder) else os.R_OK | os.W_OK
    closed = [path.name for path in states if not os.access(path, wanted) and path.exists()]
    if closed:
        text = f"user {_user(os.geteuid())} may not read and write {_some(closed)}."
        yield Finding(NOTE, about, text, "Nothing, if the store runs as another user; else mend owner and mode.")
    public = [path for path, state in states.items() if state.st_mode & stat.S_IWOTH]
    if public:
        text = f"everybody on this machine may write {_some([path.name for path in public])}."
        yield Finding(NOTE, about, text, shlex.join(["chmod", "o-w", *map(str, public)]))


def is_read_only(folder: Path) -> bool:
    """Whether the file system of a folder is mounted read-only. Then nobody may write there, and no mode is the cause."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _state(path: Path) -> os.stat_result | None:
    """State of a file; None if a running store deleted the file meanwhile."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _user(number: int) -> str:
    """The name of a user; the number of one without a name, as in a container."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def check_disk(root: Path) -> Iterator[Finding]:
    """Findings for the space on the disk, as writes see it: without the reserve."""
    about = "disk"
    flags = os.statvfs(root)
    if is_read_only(root):
        yield Finding(PROBLEM, about, "it is mounted read-only: nothing can be written.", "See dmesg, then remount it.")
        return  # the room on it is of no use, and no cause
    if flags.f_files and not flags.f_favail:
        yield Finding(PROBLEM, about, "it has no inode left: no file can be made.", "Delete small files.")
    space = space_stats(OS_DISK, root, None)
    if space is None:
        return
    capacity, free, kept, usable = space.values()
    text = f"{size(free)} of {size(capacity)} are free, {size(usable)} of them for writes (the rest is the reserve)."
    if not usable:
        todo = f"Free space: writes are refused as full below {size(kept)}, and go on by themselves."
        yield Finding(PROBLEM, about, text, todo)
    elif usable < LITTLE_FREE:
        yield Finding(NOTE, about, text, "Free space before writes are refused as full.")
    else:
        yield Finding(OK, about, text)
