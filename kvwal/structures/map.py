"""The synchronous map: a `MutableMapping` whose changes are in the log before they are in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from concurrent.futures import Future
from datetime import date
from types import TracebackType
from typing import Any, Self

from kvwal.entry import DataEntry, Entry
from kvwal.errors import CodecError
from kvwal.hlc import to_timestamp
from kvwal.log.submission import Decide
from kvwal.log.waiter import Waiter
from kvwal.ports.boundary import CommitFuture
from kvwal.structures.business import Business
from kvwal.structures.changes import Changes
from kvwal.structures.reads import MapReads
from kvwal.structures.transaction import CollectedChanges
from kvwal.structures.watch import Watch, parse_start

_MISSING = object()


class Map(MapReads, MutableMapping[Any, Any]):
    """A mapping of keys to values in one business. Any number of threads may use it.

    A change returns when it is visible and as durable as the flush policy says (with `sync=True` it is fdatasynced under every
    policy). Before that no reader sees it. If it raises, the change is not visible, now or after a restart; only after
    `CommitUnknown` it may be. Every method that puts or deletes may raise `CodecError` (key or value), `LogFailed`,
    `StorageFull`, `StoreClosed`. The methods of a `dict` that read or remove treat a key that cannot be encoded as absent.
    """

    def __init__(self, business: Business, store: object = None) -> None:
        """The map keeps a reference to `store`, so that the store is not closed by garbage collection while the map is in use."""
        super().__init__(business.state, business.codecs)
        self._business = business
        self._changes = Changes(business)
        self._store = store

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put."""
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        """Delete; `KeyError` if the key is absent, decided in the order of the log."""
        try:
            deleted = self._decide(*self._changes.discard(key, lambda entry: None))
        except CodecError as error:
            raise KeyError(key) from error
        if not deleted:
            raise KeyError(key)

    def put(self, key: Any, value: Any, ttl: float | None = None, *, sync: bool = False) -> int:
        """Put, and return the timestamp. The key counts as absent `ttl` seconds later."""
        return self._commit(self._changes.put(key, value, ttl), sync)

    def submit(self, key: Any, value: Any, ttl: float | None = None) -> Future[int]:
        """Put without waiting, and return a future of the timestamp. Waits only while the ring is full.

        On the main thread it holds a lock for some steps: a signal handler that writes then waits for ever.

        Callbacks of the future run on the store's own thread. They may `submit` (`Overloaded` if the ring is full). `close`, and
        methods that wait for a write, raise `WrongLoop` there. An error that a callback raises, `SystemExit` included, is logged,
        and stops nothing.
        """
        return self._submit(self._changes.put(key, value, ttl))

    def put_many(self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, sync: bool = False) -> int:
        """Put all items in one transaction, and return its timestamp. `TooLarge` above 5 MiB."""
        return self._commit(self._changes.put_all(items), sync)

    def submit_many(
        self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]], deletes: Iterable[Any] = ()
    ) -> Future[int]:
        """Put all items and delete all `deletes` in one transaction, without waiting; return a future of the timestamp."""
        return self._submit(self._changes.put_all(items) + [e for key in deletes for e in self._changes.delete(key)])

    def transaction(self) -> Transaction:
        """`with jobs.transaction() as t: t["a"] = 1; del t["b"]`: all of it at the end of the block, or nothing."""
        return Transaction(self)

    def delete(self, key: Any, *, sync: bool = False) -> int:
        """Delete, whether the key is there or not, and return the timestamp."""
        return self._commit(self._changes.delete(key), sync)

    def put_if_absent(self, key: Any, value: Any, ttl: float | None = None) -> bool:
        """Put only if the key is absent, decided in the order of the log. Returns whether it was put."""
        return self._decide(*self._changes.put_if_absent(key, value, ttl))

    def replace(self, key: Any, expected: Any, value: Any) -> bool:
        """Put only if the key's value equals `expected` and is of its type. Returns whether it was put."""
        return self._decide(*self._changes.replace(key, expected, value))

    def remove(self, key: Any, expected: Any) -> bool:
        """Delete only if the key's value equals `expected` and is of its type. Returns whether it was deleted."""
        return self._decide(*self._changes.remove(key, expected))

    def commit_if(
        self,
        conditions: Mapping[Any, Any],
        items: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (),
        deletes: Iterable[Any] = (),
    ) -> bool:
        """Put all items and delete all `deletes` in one transaction, only if all conditions hold. Returns whether they did.

        `conditions` has the value that each of some keys must have (equal, and of the same type), `kvwal.ABSENT` for a key that
        must be absent. They are decided in the order of the log: a transaction that a process sends late is refused.
        In a cluster that is the order of the conditional transactions. There, change the keys of conditions by this method only.
        `ConfigError` without a condition or a change.
        """
        waiter = Waiter()
        self._business.submit(self._changes.conditional(conditions, items, deletes, waiter), waits=True)
        return bool(waiter.result())

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete, and return the value that this delete ended. If the key is absent, return `default`, or raise `KeyError`."""
        ended: list[Entry] = []
        try:
            change = self._changes.discard(key, ended.append)
        except CodecError as error:
            if default is _MISSING:
                raise KeyError(key) from error
            return default
        if self._decide(*change):
            return self._codecs.decode(ended[0].value, ended[0].value_class)
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[Any, Any]:
        """Delete the first key in key order, and return it with the value that this delete ended.

        `KeyError` if the map is empty.
        """
        while (first := self._state.first()) is not None:
            ended: list[Entry] = []
            if self._decide(*self._changes.discard_stored(first, ended.append)):
                return self._decode(first.key, first.key_class), self._decode(ended[0].value, ended[0].value_class)
        raise KeyError("popitem(): the map is empty")

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of the key, after putting `default` if it was absent."""
        while (value := self.get(key, _MISSING)) is _MISSING:
            if self.put_if_absent(key, default):
                return default
        return value

    def update(self, *others: Any, **items: Any) -> None:
        """As `dict.update`, in one transaction."""
        self.put_many(dict(*others, **items))

    def clear(self) -> None:
        """Delete all current keys, in key order, in transactions of some thousand keys.

        A small map is cleared in one transaction. After a crash in the middle, or an error, the keys of some whole transactions
        are deleted and the others are still there: call `clear` again. A key that is put meanwhile may be deleted or stay.
        """
        for deletes in self._changes.deletes(self._state.all_ordered()):
            self._commit(deletes, False)

    def history(self, key: Any) -> list[DataEntry]:
        """All changes of the key that log and archive hold, newest first, deletes included.

        They reach back as far as the setting `history_seconds` says; without an archive, to the last checkpoint.
        """
        identity = self.identity(key)
        return [] if identity is None else self._business.history(*identity)

    def at(self, moment: int | date) -> MapReads:
        """The map as it was at a timestamp, at the end of a datetime's millisecond, or at the first millisecond of a date.

        A date, and a datetime without a zone, are local time. `BeforeHistory` before the history, `ConfigError` for a number
        that is no timestamp (of time.time(), say), `WrongType` for anything else.
        """
        return MapReads(self._business.as_of(to_timestamp(moment)), self._codecs)

    def watch(self, after: int | date | str | None = None) -> Watch:
        """The changes of the map from now on, or all changes after a moment: an iterator of entries, deletes included.

        They come in the order in which they were made, each once, and only when they are acknowledged. `after` is a moment, as
        `at` takes it, or the `position` of an earlier watch, which goes on exactly behind its last change. `BeforeHistory` if
        the changes after that moment are not kept any more. See `Watch` for how it ends.
        """
        return Watch(self._business.feed(parse_start(after)))

    def _submit(self, entries: list[Entry]) -> Future[int]:
        future: CommitFuture[int] = CommitFuture()
        self._business.submit(self._changes.submission(entries, future))
        return future

    def _commit(self, entries: list[Entry], sync: bool) -> int:
        waiter = Waiter()
        self._business.submit(self._changes.submission(entries, waiter, None, sync), waits=True)
        timestamp: int = waiter.result()
        return timestamp

    def _decide(self, entries: list[Entry], decide: Decide) -> bool:
        waiter = Waiter()
        self._business.submit(self._changes.submission(entries, waiter, decide), waits=True)
        return bool(waiter.result())


class Transaction(CollectedChanges):
    """A transaction of one map: after any crash all of its changes are there, or none.

    Used by one thread, for one `with` block. If the block raises, nothing is written.
    """

    def __init__(self, target: Map) -> None:
        super().__init__()
        self._map = target

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised. Then set `timestamp`."""
        entries = self._end(kind is not None)
        if entries:
            self.timestamp = self._map._commit(entries, False)

    def _changes(self) -> Changes:
        return self._map._changes


def submit_entries(target: Map, entries: list[Entry]) -> Future[int]:
    """Submit entries that are encoded already as one transaction, without waiting; return a future of the timestamp.

    Of several entries of one identity the last one counts. Raises the errors of `Map.submit_many`.
    """
    return target._submit(entries)
