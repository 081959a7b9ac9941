"""The sources that SQL reads: the businesses of one namespace, from the files of a root or from a store's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kvwal.entry import DataEntry, Entry, is_claimed
from kvwal.history.provenance.reader import LogEvents
from kvwal.history.reads.key_scan import KeySpan, Piece, Pieces, ReadPieces, Wanted, open_wanted
from kvwal.history.reads.merged_scan import live_in_order
from kvwal.history.reads.stable_read import read_settled
from kvwal.history.reads.structure_rows import live_of_structure
from kvwal.ports.disk import Disk
from kvwal.sql.changes import all_changes, warn_of_lost_tails
from kvwal.structures.map.reads import MapReads
from kvwal.structures.provenance.query import EventSource
from kvwal.values.reader import StoredValues
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects

if TYPE_CHECKING:
    import pyarrow as pa

Entries = Iterable[Entry | DataEntry]


class Source(Protocol):
    """The businesses of one namespace."""

    @property
    def has_changes(self) -> bool:
        """Whether `changes` gives those of the business's own map, and does not raise `ConfigError`."""
        ...

    def businesses(self) -> list[str]:
        """Names of the businesses, sorted."""
        ...

    def entries(self, business: str) -> Entries:
        """The live entries of a business, in the order of identity."""
        ...

    def items(self, business: str, structure: str) -> Entries | None:
        """The live entries of a structure beside the map, or of all queues, in the order of identity. None where they are found
        among `changes` only.
        """
        ...

    def open_wanted(self, business: str, wanted: Wanted) -> AbstractContextManager[Pieces]:
        """The live entries of a business whose keys are text and wanted. Those of one log, or of memory, show one moment."""
        ...

    def changes(self, business: str, structure: str) -> pa.Table:
        """Every change of a structure, or of all queues, that logs and archive hold, newest first: rows of the archive with their
        node. Rows of other structures may be among them, and those that kvwal keeps for itself.

        A warning is logged of each interval of which a lost disk may have taken changes along.
        """
        ...

    def events(self, business: str) -> EventSource:
        """The events of provenance of a business. Raises `ConfigError` where there is no table of them."""
        ...


class FileSource:
    """The logs of a root as their files are now, merged over the nodes. Other processes may write to them meanwhile."""

    has_changes = True

    def __init__(
        self,
        disk: Disk,
        root: Path,
        names: Callable[[], list[str]],
        find: Callable[[str], list[Place]],
        archive: Callable[[], Objects | None],
        now_ms: int,
        values: Callable[[str], StoredValues],
    ) -> None:
        """`names` lists the businesses of one namespace and cluster, `find` the logs of one of them. `archive` opens the archive,
        if there is one. `values` reads the large values of a business.
        """
        self._values = values
        self._disk = disk
        self._root = root
        self._names = names
        self._find = find
        self._archive = archive
        self._now_ms = now_ms

    def businesses(self) -> list[str]:
        """See `Source.businesses`."""
        return self._names()

    def entries(self, business: str) -> Entries:
        """See `Source.entries`. They are read with bounded memory and temporary files."""
        found = live_in_order(self._disk, self._root, partial(self._find, business), self._now_ms)
        return self._values(business).entries(found)

    def items(self, business: str, structure: str) -> Entries:
        """See `Source.items`. Those of one log are read with bounded memory."""
        find = partial(self._find, business)
        if len(places := find()) == 1:
            found = live_of_structure(self._disk, self._root, places, structure, self._now_ms)
            return self._values(business).entries(found)

        def read(places: Sequence[Place]) -> list[Entry]:
            return list(live_of_structure(self._disk, self._root, places, structure, self._now_ms))

        return self._values(business).entries(read_settled(self._disk, self._root, find, read))

    @contextmanager
    def open_wanted(self, business: str, wanted: Wanted) -> Iterator[Pieces]:
        """See `Source.open_wanted`. Those of one log are read with bounded memory."""
        find = partial(self._find, business)
        with open_wanted(self._disk, self._root, find, wanted, self._now_ms) as pieces:
            yield _WithValues(pieces, self._values(business))

    def changes(self, business: str, structure: str) -> pa.Table:
        """See `Source.changes`. They are those of all structures."""
        found = read_settled(self._disk, self._root, partial(self._find, business), self._changes)
        warn_of_lost_tails(self._archive(), self._find(business))
        return self._values(business).table(found)

    def events(self, business: str) -> EventSource:
        """See `Source.events`."""
        return LogEvents(self._disk, self._root, partial(self._find, business))

    def _changes(self, places: Sequence[Place]) -> pa.Table:
        return all_changes(self._disk, self._root, places, self._archive())


class _WithValues:
    """Pieces of entries with the bytes of their large values."""

    def __init__(self, pieces: Pieces, values: StoredValues) -> None:
        self._pieces = pieces
        self._values = values

    def __iter__(self) -> Iterator[Piece]:
        return map(self._whole, self._pieces)

    def within(self, spans: Sequence[KeySpan]) -> Iterable[Piece]:
        """See `Pieces.within`."""
        return map(self._whole, self._pieces.within(spans))

    def _whole(self, piece: Piece) -> Piece:
        if not any(is_claimed(entry.value_class) for entry in piece):
            return piece
        return [self._values.entry(entry) for entry in piece]


class MemorySource:
    """The maps of a store that is open here. Their changes are read from the files."""

    has_changes = True

    def __init__(self, names: Callable[[], list[str]], map_of: Callable[[str], MapReads], files: Source) -> None:
        """`names` lists the businesses; `map_of` gives the map of one of them, and opens it if need be."""
        self._names = names
        self._map_of = map_of
        self._files = files

    def businesses(self) -> list[str]:
        """See `Source.businesses`."""
        return self._names()

    def entries(self, business: str) -> Entries:
        """See `Source.entries`. They show one moment."""
        return self._map_of(business).entries()

    def items(self, business: str, structure: str) -> Entries | None:
        """See `Source.items`. They are read from the files."""
        return self._files.items(business, structure)

    def open_wanted(self, business: str, wanted: Wanted) -> AbstractContextManager[Pieces]:
        """See `Source.open_wanted`."""
        entries = self._map_of(business).entries("")
        return nullcontext(ReadPieces([entry for entry in entries if wanted(entry.key)]))

    def changes(self, business: str, structure: str) -> pa.Table:
        """See `Source.changes`."""
        return self._files.changes(business, structure)

    def events(self, business: str) -> EventSource:
        """See `Source.events`. They are read from the files."""
        return self._files.events(business)
