"""What every reader of a business answers: that of a folder's files, of a cluster, and of an archive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from kvwal.entry import DataEntry
from kvwal.history.reads.key_scan import KeySpan
from kvwal.key_class import OWN_MAP
from kvwal.store.contents.sources import StoredSource
from kvwal.structures.business import Memory
from kvwal.structures.map.view import KeyBounds
from kvwal_archive.parquet.key_ranges import Identity, KeyRange, next_identity

WantedIdentity = Callable[[bytes, str], bool]
"""Whether a key is wanted, by its bytes and its class."""


class BusinessReader(ABC):
    """Reads of one business, from the files of a store, from a cluster or from an archive. The same data give the same answers.

    Keys are those of entries: a class and bytes. Entries come in the order of identity. What is not asked for is not loaded.
    """

    @abstractmethod
    def find(self, key_class: str, key: bytes) -> DataEntry | None:
        """The latest entry of one key, None if it is absent."""

    @abstractmethod
    def entries(self, prefix: str | None = None) -> Iterator[DataEntry]:
        """The live entries as a stream: all, or those whose text key begins with `prefix`."""

    @abstractmethod
    def within(self, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None) -> Iterator[DataEntry]:
        """As `entries`, of the keys within these bounds: in reverse order, and at most `limit` entries, if these are given.

        A reader of logs or objects keeps the entries of a reverse order in memory: at most `limit` if it is given.
        """

    def page(self, bounds: KeyBounds, after: Identity | None, limit: int) -> list[DataEntry]:
        """The first entries within these bounds, or the first ones after an identity: at most `limit`."""
        if after is None:
            found = self.entries() if bounds.key_class is None else self.within(bounds, limit=limit)
            return list(islice(found, limit))
        key_class, key = after
        found = self.within(KeyBounds(key_class, key + b"\0", bounds.stop), limit=limit)
        if bounds.key_class is None:
            found = chain(found, (entry for entry in self.entries() if entry.key_class > key_class))
        return list(islice(found, limit))

    def select(self, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """As `entries`, of the keys that `wanted` accepts. A cluster sends the keys, and values of these keys only."""
        return (entry for entry in self.entries() if wanted(entry.key, entry.key_class))

    def spans(self, spans: Sequence[KeySpan]) -> Iterator[DataEntry]:
        """As `entries`, of the text keys in these spans, which are sorted and apart: others are not sent, or not read."""
        return chain.from_iterable(self.within(KeyBounds("str", low, high)) for low, high in spans)

    def of_structure(self, structure: str, ranges: Sequence[KeyRange] | None = None) -> Iterator[DataEntry] | None:
        """The live entries of a structure beside the own map, or of all queues, in the order of identity; with `ranges`, which
        are sorted, those within. None where they are found among all changes only. See `history.reads.structure_rows`.
        """
        return None

    def count(self) -> int:
        """The number of keys. Members of a cluster know it; from files and objects all entries are read."""
        return sum(1 for _ in self.entries())

    @abstractmethod
    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """Every change of a key that logs and archive hold, newest first. A warning is logged as by `Map.history`."""

    @abstractmethod
    def content_structures(self) -> list[str]:
        """The structures of contents that hold something, sorted. All names are read."""

    @property
    @abstractmethod
    def content_source(self) -> StoredSource:
        """Where the bytes of contents are read. `ConfigError` for a cluster, which has none."""

    @abstractmethod
    def as_of(self, timestamp: int, structure: str = OWN_MAP, within: KeyRange | None = None) -> Memory:
        """All entries of a structure after those with timestamps up to `timestamp`, in the memory of this process. With `within`
        others than those with these identities may be missing.

        Raises `BeforeHistory` if the history does not reach back so far.
        """


def in_direction(entries: Iterable[DataEntry], reverse: bool, limit: int | None) -> Iterator[DataEntry]:
    """Sorted entries as a range gives them: see `BusinessReader.within`."""
    return reversed(deque(entries, limit)) if reverse else islice(entries, limit)


def range_after(bounds: KeyBounds, after: Identity | None) -> KeyRange:
    """The identities within these bounds, without those up to `after` if it is given."""
    within = KeyRange(*(bounds.identities() or KeyRange()))
    return within if after is None else within._replace(low=max(within.low, next_identity(after)))
