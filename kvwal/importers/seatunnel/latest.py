"""The latest record of each key of a business of SeaTunnel: what its storage gives back when it loads all.

The newest timestamp counts. Of records of one millisecond the last one counts: that of the later region, and behind the others
in its file. Memory holds a key and a place for each key, and no values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kvwal.codecs import registry
from kvwal.entry import Entry
from kvwal.errors import CodecError
from kvwal.importers.seatunnel.folders import BusinessLog
from kvwal.importers.seatunnel.records import Record, next_record, record_at
from kvwal.importers.seatunnel.values import CLASSES, plain_value
from kvwal.importers.source import EndsEarly, NotWhole, Progress, Report, SourceFile, Sources
from kvwal.ports.disk import Disk


class Latest(NamedTuple):
    """Where the latest record of a key is."""

    timestamp: int
    file: int
    offset: int
    key_class: int
    """The number of the Java class of its key, in the order in which they were met."""


class LatestRecords:
    """The keys of one business. `kept_as_bytes` counts the objects that stay bytes, by the Java class."""

    def __init__(self, disk: Disk, log: BusinessLog, report: Report, progress: Progress | None = None) -> None:
        self.kept_as_bytes: Counter[str] = Counter()
        self.same_keys: Counter[str] = Counter()
        """Keys that were other keys in Java, by the two classes: a Long 1 and an Integer 1 are one key here."""
        self._disk = disk
        self._log = log
        self._latest: dict[tuple[str, bytes], Latest] = {}
        self._key_classes: dict[str, int] = {}
        for number, path in enumerate(log.files):
            self._read(number, path, report, progress)

    def entries(self) -> Iterator[tuple[Entry, Path, int]]:
        """An entry for each key, oldest first, with the file and the offset of its record. A deleted key's is a delete."""
        sources = Sources(self._disk, self._log.files)
        for (key_class, key), place in sorted(self._latest.items(), key=lambda item: item[1]):
            record = record_at(sources[place.file], place.offset)
            path = self._log.files[place.file]
            if record.deleted:
                yield Entry(key, key_class, b"", "", True, 0), path, place.offset
            else:
                value, value_class = self._stored_value(record)
                yield Entry(key, key_class, value, value_class, False, 0), path, place.offset

    def _read(self, number: int, path: Path, report: Report, progress: Progress | None) -> None:
        """Take the records of one file. After damage it goes on at the next whole record."""
        file = SourceFile(self._disk, path, progress)
        offset = 0
        while offset < file.size:
            try:
                record = record_at(file, offset)
                self._take(record, number, offset)
            except NotWhole as error:
                found = next_record(file, offset + 1)
                if found < 0 and isinstance(error, EndsEarly):
                    report.torn(path, offset, error.what)
                    return
                end = file.size if found < 0 else found
                report.damaged(path, offset, end, error.what)
                offset = end
            else:
                offset = record.end

    def _take(self, record: Record, number: int, offset: int) -> None:
        if not record.deleted:
            plain_value(record.value, record.value_class)
        identity = _stored_key(record)
        key_class = self._key_classes.setdefault(record.key_class, len(self._key_classes))
        place = Latest(record.timestamp, number, offset, key_class)
        known = self._latest.setdefault(identity, place)
        if known.key_class != key_class:
            names = list(self._key_classes)
            self.same_keys[" and ".join(sorted((names[known.key_class], record.key_class)))] += 1
        if place > known:
            self._latest[identity] = place

    def _stored_value(self, record: Record) -> tuple[bytes, str]:
        if record.value_class in CLASSES:
            try:
                return registry.encode_value(plain_value(record.value, record.value_class))
            except CodecError:  # NaN and infinities, which no codec takes
                pass
        self.kept_as_bytes[record.value_class] += 1
        return record.value, "bytes"


def _stored_key(record: Record) -> tuple[str, bytes]:
    """Class and bytes of a record's key."""
    try:
        key, key_class = registry.encode_key(plain_value(record.key, record.key_class))
    except CodecError:
        return "bytes", record.key
    return key_class, key
