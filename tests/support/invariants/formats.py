"""A file of a log that has an entry of a queue, of provenance or of a content, or a large value, has their format.

An older kvwal refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvwal.errors import CorruptLog, NewerVersion
from kvwal.key_class import CONTENT, PROVENANCE, QUEUE
from kvwal.log.files.format import NEWEST, format_of
from kvwal.log.files.names import FileKind, parse_name
from kvwal.log.reader import SegmentReader, SnapshotReader, entry_decoder
from kvwal.ports.disk import Disk

_MARKED = [kind.encode() for kind in (QUEUE, PROVENANCE, CONTENT)]
"""Each entry that needs a format of its own holds one of these in its class, or in that of its value."""


def unmarked(disk: Disk, folder: Path) -> Iterator[str]:
    """The files of a log that have an entry of a queue, of provenance or of a content, and not its format.

    A damaged file is judged as far as it is whole.
    """
    for name in sorted(disk.names(folder)):
        kind = parse_name(name).kind
        if kind in (FileKind.SEGMENT, FileKind.SNAPSHOT):
            try:
                yield from _unmarked(disk, folder / name, SegmentReader if kind is FileKind.SEGMENT else SnapshotReader)
            except (CorruptLog, NewerVersion, FileNotFoundError):
                continue


def _unmarked(disk: Disk, path: Path, reader_of: type[SegmentReader]) -> Iterator[str]:
    with disk.view(path) as buffer:
        reader = reader_of(path, buffer)
        if reader.header.format == NEWEST:
            return
        for first, entries in reader.numbered(entry_decoder(), holding=_MARKED):
            least = format_of(entries)
            if least > reader.header.format:
                yield (
                    f"{path}: format {reader.header.format}, and an entry of format {least} at sequence {first} or after it"
                )
                return
