"""Files of events of one log, as they are read: which ones count, the rows of a term, and the events of rows."""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.errors import CorruptLog
from kvwal.history.bounded_cache import BoundedCache
from kvwal.history.provenance.older_terms import ParquetTerms
from kvwal.history.provenance.tables import EVENT, event_of, schemas, tables_of
from kvwal.history.provenance.terms import DamagedTermsError, TermsFile, encoded_terms
from kvwal.log.files.names import EVENT_FILES, EventFile, parse_event_file
from kvwal.ports.disk import Disk
from kvwal.ports.locks import Lock
from kvwal.structures.provenance.event import Event

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_FOOTERS = 16
"""Files of events whose footers are kept in memory: some megabytes each. Only a file that has an answer is opened."""
_GROUP_BYTES = 32 << 20
"""The most bytes of row groups with events that are kept in memory: the next event is often in the same one."""
_FEW = 16
"""So few events are looked at, in place of the rows of another term, which may be all."""


def event_files(disk: Disk, folder: Path) -> list[EventFile]:
    """The files of events of the log in `folder` that count, in order."""
    return whole_files(disk.names(folder / EVENT_FILES))


def whole_files(names: Iterable[str]) -> list[EventFile]:
    """The ranges that have a file of events among these names, without those within another one; in order."""
    return _widest(file for name in names if (file := parse_event_file(name)) is not None and name == file.events)


def aside_files(names: Iterable[str]) -> list[EventFile]:
    """The ranges of which something was set aside, as `whole_files`."""
    return _widest(file for name in names if (file := parse_event_file(name)) is not None and name == file.aside)


def _widest(files: Iterable[EventFile]) -> list[EventFile]:
    kept: list[EventFile] = []
    for file in sorted(set(files), key=lambda each: (each.first, -each.last)):
        if not kept or file.last > kept[-1].last:
            kept.append(file)
    return kept


class _DiskFile(io.RawIOBase):
    """A file of the disk port as pyarrow reads it. It holds nothing open."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._size = disk.size(path)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (self._at if whence == io.SEEK_CUR else self._size if whence == io.SEEK_END else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        data = self._disk.read_part(self._path, self._at, self._size - self._at if size < 0 else size)
        self._at += len(data)
        return data


class _EventRows:
    """The file with the events of a range. Any number of threads may use it."""

    def __init__(self, opened: pq.ParquetFile) -> None:
        self._opened = opened
        self._lock = Lock()
        metadata = opened.metadata
        groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
        self.starts = [0]
        for group in groups:
            self.starts.append(self.starts[-1] + group.num_rows)
        self.count: int = metadata.num_rows
        self.firsts: list[int] = [group.column(0).statistics.min for group in groups]
        self.first_timestamp = self.firsts[0]
        self.last_timestamp: int = groups[-1].column(0).statistics.max

    def read(self) -> pa.Table:
        """All rows."""
        with self._lock:
            return self._opened.read()

    def events(self, group: int) -> pa.Array:
        """The events of a row group, as they stand there."""
        with self._lock:
            return self._opened.read_row_group(group, columns=[EVENT], use_threads=False).column(0).combine_chunks()


class EventCache:
    """What was read last of files of events."""

    def __init__(self) -> None:
        self.files: BoundedCache[Path, _EventRows] = BoundedCache(_FOOTERS)
        self.groups: BoundedCache[tuple[Path, int], pa.Array] = BoundedCache(_GROUP_BYTES, lambda group: group.nbytes)


class OpenEventFile:
    """The two files of a range of a log, for any number of threads. Neither is held open.

    Raises `CorruptLog` if one is damaged, `FileNotFoundError` if the events are gone. Terms that are missing are made from the
    events.
    """

    def __init__(self, disk: Disk, folder: Path, file: EventFile, cache: EventCache | None = None) -> None:
        self.file = file
        self._disk = disk
        self._folder = folder / EVENT_FILES
        self._path = self._folder / file.events
        self._cache = EventCache() if cache is None else cache
        try:
            with self._checked(self._folder / file.terms):
                terms = self._terms_file(self._folder / file.terms)
        except FileNotFoundError:
            self.count, self.first_timestamp, self.last_timestamp = self._shape()
        else:
            self._terms = terms
            self.count, self.first_timestamp = terms.events, terms.first_timestamp
            self.last_timestamp = terms.last_timestamp

    def check_ends(self) -> None:
        """Raise `CorruptLog` if the end of the file of events does not verify, or does not fit its terms."""
        if self._shape() != (self.count, self.first_timestamp, self.last_timestamp):
            raise CorruptLog(
                "the file of terms is of other events.", path=self._folder / self.file.terms, offset=0,
                sequence=self.file.first,
            )  # fmt: skip

    def _shape(self) -> tuple[int, int, int]:
        rows = self._rows
        return rows.count, rows.first_timestamp, rows.last_timestamp

    @property
    def _rows(self) -> _EventRows:
        def opened() -> _EventRows:
            with self._checked(self._path):
                return _EventRows(_parquet(_DiskFile(self._disk, self._path)))

        return self._cache.files.get(self._path, opened)

    @contextmanager
    def _checked(self, path: Path) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, IndexError, AttributeError, DamagedTermsError) as error:
            raise CorruptLog(
                f"the file of events does not verify ({error}).", path=path, offset=0, sequence=self.file.first
            ) from error

    def _terms_file(self, path: Path) -> TermsFile:
        return TermsFile(self._disk.size(path), partial(self._disk.read_part, path))

    @cached_property
    def _terms(self) -> TermsFile | ParquetTerms:
        """The terms, if they are not in a file of today."""
        path = self._folder / self.file.older_terms
        try:
            with self._checked(path):
                return ParquetTerms(_parquet(_DiskFile(self._disk, path)))
        except FileNotFoundError:
            events, terms = tables_of(map(self.event, range(self.count)))
            made = b"".join(encoded_terms(terms, events.column("timestamp")))
            return TermsFile(len(made), lambda offset, size: made[offset : offset + size])

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """All events, and all terms."""
        import pyarrow as pa

        terms = self._terms
        with self._checked(self._path):
            events = self._rows.read()
        with self._checked(self._folder / self.file.terms):
            return events, pa.table(list(terms.table()), schemas()[1])

    def rows_of(self, terms: Sequence[int], after: int | None, before: int | None) -> pa.Array:
        """Rows, in order, that have all events with all these terms and of this time. A few others may be among them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._checked(self._folder / self.file.terms):
            found = [each for term in dict.fromkeys(terms) if (each := self._terms.find(term)) is not None]
            if len(found) < len(set(terms)):
                return pa.array([], pa.uint32())
            rarest, *others = sorted(found, key=attrgetter("size"))
            rows = rarest.read()
            for other in others:
                if len(rows) <= _FEW:
                    break
                rows = rows.filter(pc.is_in(rows, value_set=other.read()))
        if not len(rows):
            return rows
        within = self.rows_within(after, before)
        return rows.filter(pc.and_(pc.greater_equal(rows, within.start), pc.less(rows, within.stop)))

    def rows_within(self, after: int | None, before: int | None) -> range:
        """Rows that have all events with timestamps from `after` to `before`. Others may be among them, in two row groups."""
        if (after is None or after <= self.first_timestamp) and (before is None or before >= self.last_timestamp):
            return range(self.count)
        rows = self._rows
        first = 0 if after is None else rows.starts[max(0, bisect_left(rows.firsts, after) - 1)]
        return range(first, self.count if before is None else rows.starts[bisect_right(rows.firsts, before)])

    def event(self, row: int) -> Event:
        """The event of a row."""
        starts = self._rows.starts
        group = bisect_left(starts, row + 1) - 1

        def read() -> pa.Array:
            with self._checked(self._path):
                return self._rows.events(group)

        return event_of(self._cache.groups.get((self._path, group), read)[row - starts[group]].as_py())


def _parquet(source: object) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, page_checksum_verification=True)
