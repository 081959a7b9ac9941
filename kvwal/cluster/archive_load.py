"""Archive load: loads the latest entry of every key, over all registered nodes, when no member has them in memory.

It only reads the archive and only sets what memory lacks, so it may be killed at any time and done again, by any member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product
from typing import TYPE_CHECKING, Any

from kvwal.cluster.map_names import to_map
from kvwal.cluster.transactions import Unfinished
from kvwal.entry import TIMESTAMP_SHIFT, Entry, encode_entries
from kvwal.history.reads.map_rows import ended_rows, expired_rows, marks_of
from kvwal.key_class import DROPPED, EVENTS, INTENT
from kvwal.structures.destroyed import Marks
from kvwal_archive import view
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.contents.values import archived_values, with_values
from kvwal_archive.objects import Objects
from kvwal_archive.reader import list_spans
from kvwal_archive.registry import registered
from kvwal_archive.restore import businesses, restore_batches

if TYPE_CHECKING:
    import pyarrow as pa

# A large batch gives each partition many entries at once, which costs less for each entry.
_AT_ONCE = 1 << 17


class LoadProgress:
    """Progress of a load. `entries` are in memory; `most` are in the logs, and only the latest of each key is loaded."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self.entries = 0
        self.most = 0
        self._elapsed = elapsed
        self._began = elapsed()
        self._done = 0
        self._current = (0, 0)

    def begin(self, weight: int) -> None:
        """A business begins, in whose logs are `weight` entries; the one before it has ended."""
        self._done += self._current[0]
        self._current = (weight, self.entries)

    def eta_seconds(self) -> int:
        """How long it may still take, at most; 0 while nothing can be said."""
        weight, began = self._current
        done = self._done + min(weight, self.entries - began)
        return int((self._elapsed() - self._began) * (self.most - done) / done) if done else 0


class ArchiveLoad:
    """Fills the maps of a cluster from its archive. `newest` is the greatest timestamp that it met.

    `unfinished` are the intents that it met, each with its business and those of its changes that are the latest of their keys:
    they are in memory, and have to be logged.
    """

    def __init__(
        self,
        objects: Objects,
        namespace: str,
        cluster: str,
        loader: Any,
        *,
        now_ms: int,
        skew_ms: int,
        progress: LoadProgress,
    ) -> None:
        """Entries that have expired at `now_ms` are left out. `skew_ms` is the greatest difference of the members' clocks."""
        self._objects = objects
        self._where = (namespace, cluster)
        self._loader = loader
        self._now_ms = now_ms
        self._skew = skew_ms << TIMESTAMP_SHIFT
        self._progress = progress
        self.unfinished: list[tuple[str, Entry, list[Entry]]] = []
        self.newest = 0

    def run(self) -> int:
        """Returns how many entries were loaded, when they are in memory. Raises ArchiveError and its kinds."""
        import pyarrow as pa

        names = businesses(self._objects, *self._where)
        weights = {name: self._weigh(name) for name in names}
        self._progress.most = sum(weights.values())
        for name in names:
            self._progress.begin(weights[name])
            self._fill(name)
        self._loader.drain()
        pa.default_memory_pool().release_unused()  # it would keep what reading took as long as the node lives
        return self._progress.entries

    def _weigh(self, business: str) -> int:
        places = registered(self._objects, *self._where, business)
        return sum(max((span.last for span in list_spans(self._objects, place)), default=0) for place in places)

    def _fill(self, business: str) -> None:
        name = to_map(business)
        marks = marks_of(self._objects, (*self._where, business))
        intents = Unfinished(self._intents(business, marks))
        restored = restore_batches(self._objects, *self._where, business)
        self.newest = max(self.newest, restored.max_timestamp)
        read = archived_values(ArchivedContents(self._objects, *self._where, business))
        kept = (self._live(intents.without(batch), marks) for batch in restored.batches)
        live = chain.from_iterable(with_values(read, batch) for batch in kept)
        most = int(self._loader.batchBytes())
        for part in chain.from_iterable(_parts(batch, most) for batch in _joined(live, most)):
            for columns in columns_of(part):
                self._loader.load(name, *columns)
            self._progress.entries += part.num_rows
        if puts := intents.puts(self._now_ms):
            self._loader.load(name, encode_entries(puts))
            self._progress.entries += len(puts)
        self.unfinished += [(business, intent, changes) for intent, changes in intents.left()]

    def _intents(self, business: str, marks: Marks) -> Iterator[Entry]:
        """Transactions that a crash interrupted, but for those of a map that was destroyed since."""
        for key in view.keys_of_class(self._objects, *self._where, business, INTENT):
            rows = view.history(self._objects, *self._where, business, key_class=INTENT, key=key)
            row = rows.slice(0, 1).to_pylist()[0]
            if not marks.ended(row["node"], row["timestamp"], self._skew):
                yield Entry(key, INTENT, row["value"], row["value_class"], False, row["timestamp"])

    def _live(self, batch: pa.RecordBatch, marks: Marks) -> pa.RecordBatch:
        import pyarrow.compute as pc

        key_class = batch.column("key_class")
        gone = pc.or_(batch.column("deleted"), expired_rows(batch, self._now_ms))
        for name in (DROPPED, INTENT, EVENTS):
            gone = pc.or_(gone, pc.equal(key_class, name))
        if marks.own:
            gone = pc.or_(gone, ended_rows(batch, marks, self._skew))
        return batch.filter(pc.invert(gone))


def _joined(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Concatenate neighbouring batches as long as the result stays within the limits of rows and bytes (`most`)."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if waiting and not _fit(most, *waiting, batch):
            yield pa.concat_batches(waiting)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield pa.concat_batches(waiting)


def _fit(most: int, *batches: pa.RecordBatch) -> bool:
    rows: int = sum(batch.num_rows for batch in batches)
    size: int = sum(batch.nbytes for batch in batches)
    return rows <= _AT_ONCE and size <= most


def _parts(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The rows in pieces that are neither long nor large."""
    if not batch.num_rows:
        return
    if batch.num_rows == 1 or _fit(most, batch):
        yield batch
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half), most)
    yield from _parts(batch.slice(half), most)


def columns_of(batch: pa.RecordBatch) -> Iterator[tuple[str, str, bytes, bytes, bytes, bytes, bytes | None]]:
    """The rows as MemoryLoader.java takes them: grouped by key class and value class, each column as its Arrow buffers."""
    import pyarrow.compute as pc

    classes = [batch.column(name).dictionary_encode() for name in ("key_class", "value_class")]
    for (number, key_class), (other, value_class) in product(*(enumerate(column.dictionary) for column in classes)):
        chosen = pc.and_(pc.equal(classes[0].indices, number), pc.equal(classes[1].indices, other))
        rows = batch.filter(chosen)
        if rows.num_rows:
            expires = rows.column("expires")
            ends = expires.to_numpy().tobytes() if pc.any(pc.not_equal(expires, 0)).as_py() else None
            yield (
                key_class.as_py(),
                value_class.as_py(),
                *_strings(rows.column("key")),
                *_strings(rows.column("value")),
                ends,
            )


def _strings(column: pa.BinaryArray) -> tuple[bytes, bytes]:
    """The concatenated strings of a column, and their offsets. Of a slice only its own strings; the offsets are not rebased."""
    _, offsets, data = column.buffers()
    own = memoryview(offsets)[4 * column.offset : 4 * (column.offset + len(column) + 1)]
    first, last = own[:4], own[-4:]
    if data is None:  # every string is empty
        return b"", bytes(own)
    return bytes(memoryview(data)[int.from_bytes(first, "little") : int.from_bytes(last, "little")]), bytes(own)
