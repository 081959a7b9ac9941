"""Checkpoint file of a scrub: the files already verified, so that an interrupted scrub resumes.

A sealed segment, a snapshot and an object of the archive never change, so a scrub need not read them twice. The notes are a
file of JSON lines, which the user names; kvwal never chooses one inside the archive or the root. A finished scrub deletes it.
Damaged files are not noted, so they are read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from kvwal.errors import ConfigError
from kvwal.ports.disk import Disk, File

FORMAT = 1


class Note(msgspec.Struct, array_like=True):
    """A line of the notes: one sound file. `mark`: fingerprint that changes if a file of this name is replaced."""

    name: str
    mark: str
    record: list[Any]


class NotesInMemory:
    """Notes that last for one run."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], list[Any]] = {}

    def known(self, name: str, mark: str) -> list[Any] | None:
        """See `kvwal_archive.verify.Notes.known`."""
        return self._known.get((name, mark))

    def add(self, name: str, mark: str, record: list[Any]) -> None:
        """See `kvwal_archive.verify.Notes.add`."""
        self._known[name, mark] = record


class Head(msgspec.Struct, array_like=True):
    """The first line of the notes: the kind and format of the file, and the subject of the scrub."""

    kind: str
    format: int
    subject: str


class NotesFile(NotesInMemory):
    """Notes that are kept in a file. `resumed` is the number of notes that an earlier run left."""

    def __init__(self, file: File, size: int, notes: list[Note]) -> None:
        super().__init__()
        for note in notes:
            super().add(*msgspec.structs.astuple(note))
        self.resumed = len(notes)
        self._file = file
        self._size = size

    def add(self, name: str, mark: str, record: list[Any]) -> None:
        """See `kvwal_archive.verify.Notes.add`."""
        super().add(name, mark, record)
        self.append(Note(name, mark, record))

    def append(self, line: Head | Note) -> None:
        """Write a line."""
        data = msgspec.json.encode(line) + b"\n"
        self._file.write_at(self._size, [data])
        self._size += len(data)


@contextmanager
def notes_file(disk: Disk, path: Path, subject: str) -> Iterator[NotesFile]:
    """The notes in the file `path`, which is created if it does not exist.

    An interruption or an error of the `with` block keeps the file; a normal end deletes it. A torn last line is dropped; a torn
    first line is refused, because it does not prove that the file is kvwal's. Raises `ConfigError` if the file belongs to
    anything but a scrub of `subject`, or cannot be opened.
    """
    head = Head("kvwal scrub", FORMAT, subject)
    try:
        notes, size = _read(path, disk.read(path), head) if disk.exists(path) else ([], 0)
        file = disk.open(path) if disk.exists(path) else disk.create(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be a file of notes ({error.strerror}); nothing was read.",
            hint="Name a file in a folder that is there.",
        ) from error
    try:
        file.truncate(size)
        notes_kept = NotesFile(file, size, notes)
        if not size:
            notes_kept.append(head)
        yield notes_kept
    finally:
        file.close()
    disk.unlink(path)


def _read(path: Path, data: bytes, head: Head) -> tuple[list[Note], int]:
    *lines, torn = data.split(b"\n")
    try:
        first_line = msgspec.json.decode(lines[0], type=Head) if lines else head
        notes = [msgspec.json.decode(line, type=Note) for line in lines[1:]]
    except msgspec.DecodeError as error:
        raise _refused(path, "holds no notes of a scrub") from error
    if first_line != head or (torn and not lines):
        raise _refused(path, f"holds something else than notes of a scrub of {head.subject}")
    return notes, len(data) - len(torn)


def _refused(path: Path, what: str) -> ConfigError:
    return ConfigError(f"{path} {what}; nothing was read.", hint="Name another file, or delete that one.")
