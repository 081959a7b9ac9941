"""The synchronous map: a `MutableMapping` whose changes are in the log before they are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import Future
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from kvwal.config import check_file
from kvwal.entry import DataEntry, Entry
from kvwal.errors import CodecError
from kvwal.hlc import to_timestamp
from kvwal.log.submission import Decide, Submission
from kvwal.log.waiter import Waiter
from kvwal.ports.boundary import CommitFuture
from kvwal.structures.business import Business
from kvwal.structures.handle import Handle
from kvwal.structures.map.changes import EntryBuilder, OnDelete
from kvwal.structures.map.conditions import KnownValues, ValueNeeded
from kvwal.structures.map.reads import MapReads, seconds_left
from kvwal.structures.map.transaction import MapInTransaction
from kvwal.structures.time_to_live import TimeToLive
from kvwal.structures.transaction import Transaction as BusinessTransaction
from kvwal.structures.transaction import TransactionChanges, commit, submission_of
from kvwal.structures.watch import Watch, parse_start

_MISSING = object()


class Map(Handle, MapReads, MutableMapping[Any, Any]):
    """A mapping of keys to values, with a log of its own: its business. Any number of threads may use it.

    A change returns when it is visible and as durable as the flush policy says (with `sync=True` it is fdatasynced under every
    policy). Before that no reader sees it. If it raises, the change is not visible, now or after a restart; only after
    `CommitUnknown` it may be. Every method that puts or deletes may raise `CodecError` (key or value), `LogFailed`,
    `StorageFull`, `StoreClosed`. The methods of a `dict` that read or remove treat a key that cannot be encoded as absent.
    """

    def __init__(self, business: Business, store: object = None) -> None:
        """The map keeps a reference to `store`, so that the store is not closed by garbage collection while the map is in use."""
        super().__init__(business.state, business.codecs)
        self._business = business
        self._changes = EntryBuilder(business)
        self._store = store

    def __repr__(self) -> str:
        """The names of map and store. It reads no entry; a notebook shows the first ones as a table."""
        return f"<Map {self._business.name!r}{f' of {self._store!r}' if self._store else ''}>"

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

    def put(self, key: Any, value: Any, ttl: TimeToLive | None = None, *, sync: bool = False) -> int:
        """Put, and return the timestamp. The key counts as absent after `ttl`, seconds or a `timedelta`."""
        return commit(self._business, self._changes.put(key, value, ttl), sync=sync)

    def put_file(self, key: Any, path: str | Path, ttl: TimeToLive | None = None) -> int:
        """Put the bytes of a file, of any size, and return the timestamp. `ConfigError` if it cannot be read, and on a cluster.

        `open` reads them in parts.
        """
        self._codecs.encode_key(key)  # before the file is read
        value = self._business.value_of_file(check_file("path", str(path)))
        waiter = Waiter()
        submission = submission_of(self._business, [self._changes.put_value(key, value, ttl)], waiter)
        submission.large = value.large
        self._business.submit(submission, waits=True)
        timestamp: int = waiter.result()
        return timestamp

    def submit(self, key: Any, value: Any, ttl: TimeToLive | None = None) -> Future[int]:
        """Put without waiting, and return a future of the timestamp. Waits only while the ring is full.

        On the main thread it holds a lock for some steps: a signal handler that writes then waits for ever.

        Callbacks of the future run on the store's own thread. They may `submit` (`Overloaded` if the ring is full). `close`, and
        methods that wait for a write, raise `WrongLoop` there. An error that a callback raises, `SystemExit` included, is logged,
        and stops nothing.
        """
        return self._submit(self._changes.put(key, value, ttl))

    def put_many(
        self,
        items: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        ttl: TimeToLive | None = None,
        *,
        sync: bool = False,
    ) -> int:
        """Put all items in one transaction, and return its timestamp. `ttl` is that of `put`."""
        return commit(self._business, self._changes.put_all(items, ttl), sync=sync)

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
        return commit(self._business, self._changes.delete(key), sync=sync)

    def put_if_absent(self, key: Any, value: Any, ttl: TimeToLive | None = None) -> bool:
        """Put only if the key is absent, decided in the order of the log. Returns whether it was put."""
        return self._decide(*self._changes.put_if_absent(key, value, ttl))

    def ttl(self, key: Any) -> float | None:
        """The seconds until the key counts as absent, None if it never will. `KeyError` if it is absent."""
        identity = self.identity(key)
        return seconds_left(key, None if identity is None else self._state.expires(*identity), self._business.now_ms())

    def touch(self, key: Any, ttl: TimeToLive | None) -> bool:
        """Let the key count as absent `ttl` from now (None: never), with the value that it has. Returns whether it was there.

        Decided in the order of the log: a key that was deleted, or has expired, stays absent. The history has it as a put.
        """
        while (entry := self._find(key)) is not None:
            waiter = Waiter()
            if self._decided(self._changes.expire_in(entry, ttl, waiter), waiter):
                return True
        return False

    def replace(self, key: Any, expected: Any, value: Any) -> bool:
        """Put only if the key's value equals `expected` and is of its type. Returns whether it was put."""
        return self._compared(lambda known: self._decide(*self._changes.replace(key, expected, value, known)))

    def remove(self, key: Any, expected: Any) -> bool:
        """Delete only if the key's value equals `expected` and is of its type. Returns whether it was deleted."""
        return self._compared(lambda known: self._decide(*self._changes.remove(key, expected, known)))

    def commit_if(
        self,
        conditions: Mapping[Any, Any],
        items: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (),
        deletes: Iterable[Any] = (),
    ) -> bool:
        """Put all items and delete all `deletes` in one transaction, only if all conditions hold. Returns whether they did.

        `conditions` has the value that each of some keys must have (equal, and of the same type), `kvwal.ABSENT` for a key that
        must be absent. They are decided in the order of the log: a transaction that a process sends late is refused.
        `ConfigError` without a condition or a change.
        """

        def commit_once(known: KnownValues) -> bool:
            waiter = Waiter()
            return self._decided(self._changes.conditional(conditions, items, deletes, waiter, known), waiter)

        items = items if isinstance(items, Mapping) else list(items)
        deletes = list(deletes)
        return self._compared(commit_once)

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete, and return the value that this delete ended. If the key is absent, return `default`, or raise `KeyError`."""
        ended: list[Entry] = []
        try:
            is_there = self._compared(lambda known: self._decide(*self._changes.discard(key, ended.append, known)))
        except CodecError as error:
            if default is _MISSING:
                raise KeyError(key) from error
            return default
        if is_there:
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
            if self._compared(partial(self._discard_stored, first, ended.append)):
                value = self._decode(ended[0].value, ended[0].value_class)
                return self._codecs.decode_key(first.key, first.key_class), value
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
            commit(self._business, deletes)

    def history(self, key: Any) -> list[DataEntry]:
        """All changes of the key that log and archive hold, newest first, deletes included.

        They reach back as far as the setting `history_seconds` says; without an archive, to the last checkpoint. A warning is
        logged of each interval of which a lost disk may have taken changes along.
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
        `at` takes it, or the `position` of an earlier watch, which goes on exactly after its last change. `BeforeHistory` if
        the changes after that moment are not kept any more. See `Watch` for how it ends. A warning is logged of each interval, of
        those asked for, of which a lost disk may have taken changes along.
        """
        return Watch(self._business.feed(parse_start(after)), whole=self._codecs.whole)

    def _submit(self, entries: list[Entry]) -> Future[int]:
        future: CommitFuture[int] = CommitFuture()
        self._business.submit(submission_of(self._business, entries, future))
        return future

    def _decide(self, entries: list[Entry], decide: Decide) -> bool:
        waiter = Waiter()
        return self._decided(submission_of(self._business, entries, waiter, decide), waiter)

    def _discard_stored(self, stored: Entry, on_delete: OnDelete, known: KnownValues) -> bool:
        return self._decide(*self._changes.discard_stored(stored, on_delete, known))

    def _commit_entries_if(self, conditions: Mapping[Any, Any], entries: list[Entry]) -> bool:
        def commit_once(known: KnownValues) -> bool:
            waiter = Waiter()
            return self._decided(self._changes.conditional_entries(conditions, entries, waiter, known), waiter)

        return self._compared(commit_once)

    def _compared(self, write: Callable[[KnownValues], bool]) -> bool:
        """The answer of a conditional write, after reading the large values that its conditions need."""
        known = KnownValues(self._codecs)
        with self._codecs.hold():  # before the decision: what it names is not collected
            while True:
                try:
                    return write(known)
                except ValueNeeded as needed:
                    known.add(needed)

    def _decided(self, submission: Submission, waiter: Waiter) -> bool:
        self._business.submit(submission, waits=True)
        return bool(waiter.result())


class MapOfTransaction(MapInTransaction):
    """A map in the block of a transaction. A read shows what the block has put, and else what the map has at that moment.

    It locks nothing: changes that depend on what was read need `commit_if`.
    """

    def __init__(self, changes: TransactionChanges, target: Map) -> None:
        super().__init__(changes)
        self._map = target

    def __getitem__(self, key: Any) -> Any:
        """The value of `key`, with the changes of this block; `KeyError` if it is absent."""
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`, with the changes of this block."""
        change = self._pending(key)
        return self._map.get(key, default) if change is None else self._value(change, default)

    def _changes(self) -> EntryBuilder:
        return self._map._changes


class Transaction(BusinessTransaction, MapOfTransaction):
    """A transaction of one map: after any crash all of its changes are there, or none. `timestamp` is 0 until it is committed.

    Used by one thread, for one `with` block. If the block raises, nothing is written.
    """

    def __init__(self, target: Map) -> None:
        BusinessTransaction.__init__(self, target._business)
        MapOfTransaction.__init__(self, self.changes, target)


def submit_entries(target: Map, entries: list[Entry]) -> Future[int]:
    """Submit entries that are encoded already as one transaction, without waiting; return a future of the timestamp.

    Of several entries of one identity the last one counts. Raises the errors of `Map.submit_many`.
    """
    return target._submit(entries)


def transaction_bytes(target: Map) -> int:
    """The most bytes of a transaction, as `kvwal.log.submission.size_of` counts them."""
    return target._business.transaction_bytes


def commit_entries_if(target: Map, conditions: Mapping[Any, Any], entries: list[Entry]) -> bool:
    """As `Map.commit_if`, of entries that are encoded already. Of several entries of one identity the last one counts."""
    return target._commit_entries_if(conditions, entries)
