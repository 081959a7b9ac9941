"""Files of events of one log, as they are read: which ones count, the rows of a term, and the events of rows."""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.errors import CorruptLog
from kvwal.history.provenance.tables import EVENT, event_of, tables_of, to_parquet
from kvwal.log.files.names import EVENT_FILES, EventFile, parse_event_file
from kvwal.ports.disk import Disk
from kvwal.ports.locks import Lock
from kvwal.structures.provenance.event import Event

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_GROUPS = 8
"""Row groups whose events are kept in memory of each file: the next event is often in the same one."""
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


class OpenEventFile:
    """The two files of a range of a log, for any number of threads.

    Raises `CorruptLog` if one is damaged, `FileNotFoundError` if the events are gone. Terms that are missing are made from the
    events.
    """

    def __init__(self, disk: Disk, folder: Path, file: EventFile) -> None:
        self.file = file
        self._disk = disk
        self._path = folder / EVENT_FILES / file.events
        self._terms_path = folder / EVENT_FILES / file.terms
        self._lock = Lock()
        self._read: OrderedDict[int, pa.Table] = OrderedDict()
        self._events = self._opened(_DiskFile(disk, self._path), self._path)
        self.count: int = self._events.metadata.num_rows
        with self._checked(self._path):
            groups = [self._events.metadata.row_group(n) for n in range(self._events.metadata.num_row_groups)]
            self._starts = [0]
            for group in groups:
                self._starts.append(self._starts[-1] + group.num_rows)
            self.first_timestamp: int = groups[0].column(0).statistics.min
            self.last_timestamp: int = groups[-1].column(0).statistics.max
            self._firsts = [group.column(0).statistics.min for group in groups]

    def _opened(self, source: object, path: Path) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        with self._checked(path):
            return pq.ParquetFile(source, page_checksum_verification=True)

    @contextmanager
    def _checked(self, path: Path) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, IndexError, AttributeError) as error:
            raise CorruptLog(
                f"the file of events does not verify ({error}).", path=path, offset=0, sequence=self.file.first
            ) from error

    @cached_property
    def _terms(self) -> pq.ParquetFile:
        try:
            return self._opened(_DiskFile(self._disk, self._terms_path), self._terms_path)
        except FileNotFoundError:
            made = to_parquet(tables_of(map(self.event, range(self.count)))[1])
            return self._opened(io.BytesIO(made), self._terms_path)

    @cached_property
    def _term_ranges(self) -> tuple[list[int], list[int]]:
        """The first and the last term of each row group."""
        with self._checked(self._terms_path):
            metadata = self._terms.metadata
            found = [metadata.row_group(n).column(0).statistics for n in range(metadata.num_row_groups)]
            return [each.min for each in found], [each.max for each in found]

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """All events, and all terms."""
        terms = self._terms
        with self._lock, self._checked(self._path):
            return self._events.read(), terms.read()

    def rows_of(self, term: int) -> pa.Array:
        """The rows of the events that have a term, in order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        firsts, lasts = self._term_ranges
        found: list[pa.ChunkedArray] = []
        group = bisect_left(lasts, term)
        wanted = pa.scalar(term, pa.uint64())
        with self._lock, self._checked(self._terms_path):
            while group < len(firsts) and firsts[group] <= term:
                table = self._terms.read_row_group(group, use_threads=False)
                rows = table.column("row")
                if firsts[group] != term or lasts[group] != term:
                    rows = rows.filter(pc.equal(table.column("term"), wanted))
                found += rows.chunks
                group += 1
        return pa.chunked_array(found, pa.uint32()).combine_chunks()

    def rows_of_all(self, terms: Sequence[int]) -> list[int]:
        """Rows that have all events with all these terms, in order. Others may be among them, if they are few."""
        import pyarrow.compute as pc

        rarest, *others = sorted(terms, key=self._groups_of)
        rows = self.rows_of(rarest)
        for term in others:
            if len(rows) <= _FEW:
                break
            rows = rows.filter(pc.is_in(rows, value_set=self.rows_of(term)))
        listed: list[int] = rows.to_pylist()
        return listed

    def _groups_of(self, term: int) -> int:
        """The number of row groups that may have a term."""
        firsts, lasts = self._term_ranges
        return bisect_right(firsts, term) - bisect_left(lasts, term)

    def rows_within(self, after: int | None, before: int | None) -> range:
        """Rows that have all events with timestamps from `after` to `before`. Others may be among them, in two row groups."""
        first = 0 if after is None else self._starts[max(0, bisect_left(self._firsts, after) - 1)]
        return range(first, self.count if before is None else self._starts[bisect_right(self._firsts, before)])

    def event(self, row: int) -> Event:
        """The event of a row."""
        group = bisect_left(self._starts, row + 1) - 1
        with self._lock:
            table = self._read.get(group)
            if table is None:
                with self._checked(self._path):
                    table = self._events.read_row_group(group, columns=[EVENT], use_threads=False)
                self._read[group] = table
                while len(self._read) > _GROUPS:
                    self._read.popitem(last=False)
        return event_of(table.column(0)[row - self._starts[group]].as_py())
