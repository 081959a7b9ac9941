"""The map that synchronous callers see: a `MutableMapping` whose every change is in the log before it is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from kvwal.entry import DataEntry, Entry
from kvwal.hlc import to_timestamp
from kvwal.log.ring import Decide
from kvwal.structures.business import Business
from kvwal.structures.changes import Changes
from kvwal.structures.reads import MapReads

_MISSING = object()
_CLEAR_AT_ONCE = 10_000


class Map(MapReads, MutableMapping[Any, Any]):
    """Keys to values of one business. Any number of threads may use it.

    A change returns when it is as durable as the flush policy says (`sync=True`: fdatasynced, whatever the policy) and
    visible; until then nobody sees it. If it raises, it is not visible, now or after a restart, but for `CommitUnknown`.
    Every method may raise `CodecError` (key or value), `LogFailed`, `StorageFull`, `StoreClosed`.
    """

    def __init__(self, business: Business, store: object = None) -> None:
        """`store` is whatever must not be closed for want of references as long as somebody has this map."""
        super().__init__(business.state, business.codecs)
        self._business = business
        self._changes = Changes(business)
        self._store = store

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put."""
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        """Delete; `KeyError` if the key is absent, decided in the order of the log."""
        if not self._decide(*self._changes.discard(key, lambda entry: None)):
            raise KeyError(key)

    def put(self, key: Any, value: Any, ttl: float | None = None, *, sync: bool = False) -> int:
        """Put, and return the timestamp. After `ttl` seconds the key counts as absent."""
        return self._commit(self._changes.put(key, value, ttl), sync)

    def submit(self, key: Any, value: Any, ttl: float | None = None) -> Future[int]:
        """Put without waiting: a future of the timestamp. Waits only while the ring is full.

        Callbacks of the future run on the thread that writes. They may `submit`, if the ring has room (else `Overloaded`);
        what waits for a write, and `close`, is refused there with `WrongLoop`.
        """
        return self._submit(self._changes.put(key, value, ttl))

    def put_many(self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, sync: bool = False) -> int:
        """Put all items in one transaction, and return its timestamp. `TooLarge` above 5 MiB."""
        return self._commit(self._changes.put_all(items), sync)

    def submit_many(
        self, items: Mapping[Any, Any] | Iterable[tuple[Any, Any]], deletes: Iterable[Any] = ()
    ) -> Future[int]:
        """Put all items and delete all keys of `deletes` in one transaction, without waiting: a future of its timestamp."""
        return self._submit(self._changes.put_all(items) + [e for key in deletes for e in self._changes.delete(key)])

    def transaction(self) -> Transaction:
        """`with jobs.transaction() as t: t["a"] = 1; del t["b"]`: all of it at the end of the block, or nothing."""
        return Transaction(self)

    def delete(self, key: Any, *, sync: bool = False) -> int:
        """Delete, whether the key is there or not, and return the timestamp."""
        return self._commit(self._changes.delete(key), sync)

    def put_if_absent(self, key: Any, value: Any, ttl: float | None = None) -> bool:
        """Put only if the key is absent, decided in the order of the log. Whether it was."""
        return self._decide(*self._changes.put_if_absent(key, value, ttl))

    def replace(self, key: Any, expected: Any, value: Any) -> bool:
        """Put only if the key's value equals `expected` and is of its type. Whether it did."""
        return self._decide(*self._changes.replace(key, expected, value))

    def remove(self, key: Any, expected: Any) -> bool:
        """Delete only if the key's value equals `expected` and is of its type. Whether it did."""
        return self._decide(*self._changes.remove(key, expected))

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete, and return the value that this very delete ended; `default`, or `KeyError`, if the key was absent."""
        ended: list[Entry] = []
        if self._decide(*self._changes.discard(key, ended.append)):
            return self._codecs.decode(ended[0].value, ended[0].value_class)
        if default is _MISSING:
            raise KeyError(key)
        return default

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of the key, after putting `default` if it was absent."""
        while (value := self.get(key, _MISSING)) is _MISSING:
            if self.put_if_absent(key, default):
                return default
        return value

    def update(self, *others: Any, **items: Any) -> None:
        """As of a dict, in one transaction."""
        self.put_many(dict(*others, **items))

    def clear(self) -> None:
        """Delete every key that is there now. Not one transaction, if there are many."""
        keys = list(self)
        for start in range(0, len(keys), _CLEAR_AT_ONCE):
            deletes = [entry for key in keys[start : start + _CLEAR_AT_ONCE] for entry in self._changes.delete(key)]
            self._commit(deletes, False)

    def history(self, key: Any) -> list[DataEntry]:
        """Every change of the key that log and archive hold, newest first, deletes included.

        How far back that is says the setting `history_seconds`; without an archive, the last checkpoint.
        """
        data, key_class = self._codecs.encode_key(key)
        return self._business.history(key_class, data)

    def at(self, moment: int | datetime) -> MapReads:
        """The map as it was at a timestamp, or at the end of a datetime's millisecond. `BeforeHistory` before the history."""
        return MapReads(self._business.as_of(to_timestamp(moment)), self._codecs)

    def _submit(self, entries: list[Entry], sync: bool = False, *, waits: bool = False) -> Future[int]:
        future: Future[int] = Future()
        self._business.submit(self._changes.submission(entries, future, None, sync), waits=waits)
        return future

    def _commit(self, entries: list[Entry], sync: bool) -> int:
        return self._submit(entries, sync, waits=True).result()

    def _decide(self, entries: list[Entry], decide: Decide) -> bool:
        future: Future[bool] = Future()
        self._business.submit(self._changes.submission(entries, future, decide), waits=True)
        return future.result()


class Transaction:
    """Changes of one map that are logged as one: all there or not there at all, after any crash.

    Used by one thread. An exception in the block writes nothing.
    """

    def __init__(self, target: Map) -> None:
        self._map = target
        self._entries: list[Entry] = []
        self.timestamp = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put, at the end of the block."""
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        """Delete, at the end of the block, whether the key is there or not."""
        self._entries += self._map._changes.delete(key)

    def put(self, key: Any, value: Any, ttl: float | None = None) -> None:
        """Put, at the end of the block."""
        self._entries += self._map._changes.put(key, value, ttl)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised. `timestamp` is the transaction's afterwards."""
        if kind is None and self._entries:
            self.timestamp = self._map._commit(self._entries, False)
