"""The asynchronous map. Reads of memory are coroutines too, so that a map of a cluster can have the same interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kvwal.config import Flush, check_file
from kvwal.entry import DataEntry, Entry, is_claimed
from kvwal.errors import CodecError
from kvwal.hlc import to_timestamp
from kvwal.log.submission import Decide
from kvwal.store.aio.structure import AsyncStructure, OpenStore
from kvwal.store.aio.waiting import ended
from kvwal.structures.business import Business, LocalBusiness
from kvwal.structures.map.changes import EntryBuilder
from kvwal.structures.map.conditions import KnownValues, ValueNeeded
from kvwal.structures.map.named import StructureCodecs, map_structure
from kvwal.structures.map.reads import MapReads, seconds_left
from kvwal.structures.map.transaction import MapInTransaction
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import TransactionChanges, submission_of
from kvwal.structures.watch import AsyncWatch, of_structure
from kvwal.values.moved import FileValue

_MISSING = object()


class Map(AsyncStructure):
    """A map from keys to values, with the promises of the synchronous `Map`. Any number of tasks of the loop may use it.

    A task that is cancelled (or timed out) while it waits for a write does not know the outcome. The write is not done if the
    log writer had not taken it yet, and done whole if it had; it is never done in part. Read the key to learn which, or write
    again. Writes of other tasks are not affected. The business is opened at the first call. A task that is cancelled while it
    opens the business waits until the step that runs on a thread has ended. A call on another event loop than the store's
    raises `WrongLoop`.
    """

    def __init__(self, store: OpenStore, name: str, flush: Flush | None) -> None:
        super().__init__(store, name, flush)
        self._reads: MapReads | None = None
        self._changes: EntryBuilder | None = None

    def __repr__(self) -> str:
        return f"<Map {self._name!r} of {self._store!r}>"

    async def put(self, key: Any, value: Any, ttl: TimeToLive | None = None, *, sync: bool = False) -> int:
        """Put, and return the timestamp. The key counts as absent after `ttl`, seconds or a `timedelta`."""
        changes = self._changes or await self._open()
        return await self._commit(changes.put(key, value, ttl), sync)

    async def put_many(
        self,
        items: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        ttl: TimeToLive | None = None,
        *,
        sync: bool = False,
    ) -> int:
        """Put all items in one transaction, and return its timestamp. `ttl` is that of `put`."""
        changes = self._changes or await self._open()
        return await self._commit(changes.put_all(items, ttl), sync)

    async def put_file(self, key: Any, path: str | Path, ttl: TimeToLive | None = None) -> int:
        """Put the bytes of a file, of any size, which is read on a thread: see `kvwal.Map.put_file`."""
        changes = self._changes or await self._open()
        changes.codecs.encode_key(key)
        source, business = check_file("path", str(path)), self._opened()
        made: list[FileValue] = []
        try:
            await ended(lambda: made.append(business.value_of_file(source)))
        except asyncio.CancelledError as error:
            if made and made[0].large is not None:
                made[0].large.over(error)
            raise
        (value,) = made
        future: asyncio.Future[int] = self._checked_loop().create_future()
        submission = submission_of(business, [changes.put_value(key, value, ttl)], future)
        submission.large = value.large
        return await self._submit(submission, future)

    def transaction(self) -> Transaction:
        """A transaction: `async with jobs.transaction() as t: t["a"] = 1; del t["b"]` commits both at the end, or neither."""
        return Transaction(self)

    async def delete(self, key: Any, *, sync: bool = False) -> int:
        """Delete the key, also if it is absent, and return the timestamp."""
        changes = self._changes or await self._open()
        return await self._commit(changes.delete(key), sync)

    async def put_if_absent(self, key: Any, value: Any, ttl: TimeToLive | None = None) -> bool:
        """Put only if the key is absent, which is decided in log order. Returns whether the value was put."""
        changes = self._changes or await self._open()
        return await self._decide(*changes.put_if_absent(key, value, ttl))

    async def ttl(self, key: Any) -> float | None:
        """The seconds until the key counts as absent, None if it never will. `KeyError` if it is absent."""
        identity = (await self._reading()).identity(key)
        business = self._opened()
        expires = None if identity is None else await self._expires(business, *identity)
        return seconds_left(key, expires, business.now_ms())

    async def touch(self, key: Any, ttl: TimeToLive | None) -> bool:
        """Let the key count as absent `ttl` from now (None: never), with the value that it has: see `kvwal.Map.touch`."""
        changes = self._changes or await self._open()
        while (entry := await self._find(key)) is not None:
            future: asyncio.Future[bool] = self._checked_loop().create_future()
            if await self._submit(changes.expire_in(entry, ttl, future), future):
                return True
        return False

    async def replace(self, key: Any, expected: Any, value: Any) -> bool:
        """Put only if the key's value equals `expected` and has its type. Returns whether the value was put."""
        changes = self._changes or await self._open()
        return await self._compared(lambda known: self._decide(*changes.replace(key, expected, value, known)))

    async def remove(self, key: Any, expected: Any) -> bool:
        """Delete only if the key's value equals `expected` and has its type. Returns whether the key was deleted."""
        changes = self._changes or await self._open()
        return await self._compared(lambda known: self._decide(*changes.remove(key, expected, known)))

    async def commit_if(
        self,
        conditions: Mapping[Any, Any],
        items: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (),
        deletes: Iterable[Any] = (),
    ) -> bool:
        """Put all items and delete all `deletes` in one transaction, only if all conditions hold: see `kvwal.Map.commit_if`."""
        changes = self._changes or await self._open()
        items = items if isinstance(items, Mapping) else list(items)
        deletes = list(deletes)

        def commit_once(known: KnownValues) -> Awaitable[bool]:
            future: asyncio.Future[bool] = self._checked_loop().create_future()
            return self._submit(changes.conditional(conditions, items, deletes, future, known), future)

        return await self._compared(commit_once)

    async def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete the key and return the value that this delete removed; `default`, or `KeyError`, if the key was absent."""
        changes = self._changes or await self._open()
        removed: list[Entry] = []
        try:
            is_there = await self._compared(lambda known: self._decide(*changes.discard(key, removed.append, known)))
        except CodecError as error:
            if default is _MISSING:
                raise KeyError(key) from error
            return default
        if is_there:
            return self._opened().codecs.decode(removed[0].value, removed[0].value_class)
        if default is _MISSING:
            raise KeyError(key)
        return default

    async def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        reads = await self._reading()
        entry = reads._find(key)
        if entry is not None and is_claimed(entry.value_class):
            return await self._on_thread(lambda: reads.get(key, default))
        return default if entry is None else reads._codecs.decode(entry.value, entry.value_class)

    async def contains(self, key: Any) -> bool:
        """Whether the key is present."""
        return key in await self._reading()

    async def count(self) -> int:
        """The number of keys."""
        return len(await self._reading())

    async def entry(self, key: Any) -> DataEntry | None:
        """The latest entry of `key` with its raw bytes, None if it is absent."""
        reads = await self._reading()
        entry = reads._find(key)
        if entry is not None and is_claimed(entry.value_class):
            return await self._on_thread(lambda: reads.entry(key))
        return None if entry is None else entry.public()

    async def scan(self, prefix: str | bytes | tuple[Any, ...] | None = None) -> AsyncIterator[tuple[Any, Any]]:
        """Keys and values in key order: all of them, or those whose key begins with `prefix`: see `kvwal.Map.scan`."""
        reads = await self._reading()
        async for item in self._in_batches(lambda: reads.scan(prefix)):
            yield item

    async def range(
        self, start: Any = None, end: Any = None, *, reverse: bool = False, limit: int | None = None
    ) -> AsyncIterator[tuple[Any, Any]]:
        """Keys and values from the key `start` to before the key `end`, in key order: see `kvwal.Map.range`."""
        reads = await self._reading()
        async for item in self._in_batches(lambda: reads.range(start, end, reverse=reverse, limit=limit)):
            yield item

    async def history(self, key: Any) -> list[DataEntry]:
        """Every change of the key that log and archive hold, newest first. It is read on a thread."""
        identity = (await self._reading()).identity(key)
        business = self._opened()
        return [] if identity is None else await self._on_thread(lambda: business.history(*identity))

    async def at(self, moment: int | date) -> Mapping[Any, Any]:
        """The map as it was at a moment, as a mapping in memory. `moment` is that of `kvwal.Map.at`."""
        timestamp = to_timestamp(moment)
        await self._reading()
        business = self._opened()
        state = await self._on_thread(lambda: business.as_of(timestamp))
        return MapReads(state, business.codecs)

    def watch(self, after: int | date | str | None = None) -> AsyncWatch:
        """As `Map.watch`, for `async for`. Without `after` it begins when its first change is awaited."""
        return self._watch(after)

    async def _find(self, key: Any) -> Entry | None:
        """The latest stored entry of the key, None if it is absent."""
        return (await self._reading())._find(key)

    async def _compared(self, write: Callable[[KnownValues], Awaitable[bool]]) -> bool:
        """See `kvwal.structures.map.map.Map._compared`."""
        codecs = self._opened().codecs
        known = KnownValues(codecs)
        with codecs.hold():
            while True:
                try:
                    return await write(known)
                except ValueNeeded as needed:
                    await self._on_thread(partial(known.add, needed))

    async def _expires(self, business: Business, key_class: str, key: bytes) -> int | None:
        return business.state.expires(key_class, key)

    async def _open(self) -> EntryBuilder:
        return self._attach(await self._find_business())

    def _attach(self, business: LocalBusiness) -> EntryBuilder:
        self._business = business
        self._reads = MapReads(business.state, business.codecs)
        self._changes = EntryBuilder(business)
        return self._changes

    async def _open_business(self) -> Business:
        if self._business is None:
            await self._open()
        return self._opened()

    async def _reading(self) -> MapReads:
        if self._reads is not None:
            return self._reads
        await self._open()
        return self._opened_reads()

    def _opened_reads(self) -> MapReads:
        if self._reads is None:
            raise self._not_open()
        return self._reads

    def _opened_changes(self) -> EntryBuilder:
        if self._changes is None:
            raise self._not_open()
        return self._changes

    def _commit(self, entries: list[Entry], sync: bool) -> Awaitable[int]:
        future: asyncio.Future[int] = self._checked_loop().create_future()
        return self._submit(submission_of(self._opened(), entries, future, None, sync), future)

    def _decide(self, entries: list[Entry], decide: Decide) -> Awaitable[bool]:
        future: asyncio.Future[bool] = self._checked_loop().create_future()
        return self._submit(submission_of(self._opened(), entries, future, decide), future)


class NamedMap(Map):
    """A map of a business that has a name of its own. See `Map`."""

    def __init__(self, store: OpenStore, business: str, name: str, flush: Flush | None) -> None:
        """Raises `InvalidName`."""
        super().__init__(store, business, flush)
        self._structure = map_structure(name)

    def __repr__(self) -> str:
        return f"<Map '{self._name}/{self._structure}' of {self._store!r}>"

    async def at(self, moment: int | date) -> Mapping[Any, Any]:
        """See `Map.at`."""
        timestamp = to_timestamp(moment)
        codecs, business = (await self._reading())._codecs, await self._find_business()
        return MapReads(await self._on_thread(lambda: business.as_of(timestamp, self._structure)), codecs)

    def watch(self, after: int | date | str | None = None) -> AsyncWatch:
        """See `Map.watch`."""
        return self._watch(after, of_structure(self._structure))

    async def _expires(self, business: Business, key_class: str, key: bytes) -> int | None:
        return self._opened_reads()._state.expires(key_class, key)

    def _attach(self, business: LocalBusiness) -> EntryBuilder:
        super()._attach(business)
        codecs = StructureCodecs(business.codecs, self._structure)
        self._reads = MapReads(business.state_of(self._structure), codecs)
        self._changes = EntryBuilder(business, codecs)
        return self._changes


class MapOfTransaction(MapInTransaction):
    """A map in the block of a transaction. A read shows what the block has put, and else what the map has at that moment.

    It locks nothing: changes that depend on what was read need `commit_if`.
    """

    def __init__(self, changes: TransactionChanges, target: Map) -> None:
        super().__init__(changes)
        self._map = target

    async def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`, with the changes of this block."""
        change = self._pending(key)
        return await self._map.get(key, default) if change is None else self._value(change, default)

    def _changes(self) -> EntryBuilder:
        return self._map._opened_changes()


class Transaction(MapOfTransaction):
    """Changes of one map that are logged as one: all or none of them is present after any crash.

    Used by one task, for one `async with` block. A read in the block is that of the synchronous `Transaction`.
    """

    def __init__(self, changed: Map) -> None:
        super().__init__(TransactionChanges(), changed)
        self.timestamp = 0

    async def __aenter__(self) -> Self:
        self._pending_changes.begin()
        await self._map._reading()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised. Afterwards `timestamp` is that of the transaction."""
        entries = self._pending_changes.end().entries
        if entries and kind is None:
            self.timestamp = await self._map._commit(entries, False)
