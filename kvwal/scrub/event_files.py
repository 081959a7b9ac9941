"""Files of events of a log: those that are damaged or were set aside, and what a repair saves of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kvwal.entry import Decode, Entry
from kvwal.errors import KvwalError
from kvwal.history.provenance.files import OpenEventFile, aside_files, event_files
from kvwal.history.provenance.tables import entries_of_events
from kvwal.history.provenance.unreadable import UNREADABLE
from kvwal.log.files.names import EVENT_FILES, EventFile
from kvwal.ports.disk import Disk


class EventFault(NamedTuple):
    """A file of events that is not sound, and why. `is_aside`: it has what could not be decoded."""

    file: EventFile
    name: str
    text: str
    is_aside: bool = False


def event_faults(disk: Disk, folder: Path, *, whole: bool) -> Iterator[EventFault]:
    """The faults among the files of events of a log. With `whole` each byte is read, else their ends."""
    for file in event_files(disk, folder):
        try:
            opened = OpenEventFile(disk, folder, file)
            opened.check_ends()
            if whole:
                opened.tables()
        except FileNotFoundError:  # a checkpoint merged or dropped it
            continue
        except KvwalError as error:
            yield EventFault(file, f"{EVENT_FILES}/{file.events}", error.what)
    for file in aside_files(disk.names(folder / EVENT_FILES)):
        text = "it has events that could not be decoded, as the log had them."
        yield EventFault(file, f"{EVENT_FILES}/{file.aside}", text, True)


class SavedEvents(NamedTuple):
    """The entries of events that are in files of their own, and a sentence for each file whose events are lost."""

    entries: list[Entry]
    lost: list[str]


def salvage_events(disk: Disk, folder: Path, decode: Decode) -> SavedEvents:
    """Read all events of a log's files, also what was set aside. They are in memory."""
    saved = SavedEvents([], [])
    for file in event_files(disk, folder):
        try:
            opened = OpenEventFile(disk, folder, file)
            found = list(entries_of_events(map(opened.event, range(opened.count))))
        except (KvwalError, *UNREADABLE) as error:
            what = error.what if isinstance(error, KvwalError) else str(error)
            saved.lost.append(f"{EVENT_FILES}/{file.events}: the events of sequences {file.first}–{file.last} ({what})")
        else:
            saved.entries.extend(found)
    for file in aside_files(disk.names(folder / EVENT_FILES)):
        try:
            saved.entries.extend(decode(disk.read(folder / EVENT_FILES / file.aside)))
        except UNREADABLE as error:
            saved.lost.append(f"{EVENT_FILES}/{file.aside}: it is damaged ({error})")
    return saved
