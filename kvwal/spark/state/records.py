"""Records that fence writers: each is a key of a map, and changes by compare-and-set together with what its writer puts.

Leases, positions and marks of writes and runs are such records. The store refuses a transaction whose record has changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import msgspec

from kvwal.errors import CommitUnknown, KvwalError, TransactionClosed
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.structures.map.changes import ABSENT

PREFIX = "!ledger/"
"""Keys of records beside the values of users begin so. The data source `kvwal` leaves them out; other readers see them."""
_TRIES = 3
_NEW, _OPEN, _OVER = "was not begun", "is open", "is over"
_DELETED = object()
_NO_OTHERS: Mapping[Any, Any] = MappingProxyType({})

R = TypeVar("R", bound=msgspec.Struct)
Items: TypeAlias = Mapping[Any, Any] | Iterable[tuple[Any, Any]]


class StateMap(Protocol):
    """The methods of a map that a job's state needs. `kvwal.Map` has them, and `Lease`, which adds its condition."""

    def get(self, key: Any, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def commit_if(self, conditions: Mapping[Any, Any], items: Items, deletes: Iterable[Any] = (), /) -> bool:
        """See `kvwal.Map.commit_if`."""
        ...


class Changes:
    """Puts and deletes of one `with` block, which are committed at its end together with a record of a job's state.

    If the block raises, nothing is written. Outside the block, and in a second one, changes raise `TransactionClosed`. Of several
    changes of one key the last one counts. Used by one thread.
    """

    def __init__(self, commit: Callable[[Changes], None]) -> None:
        self._commit = commit
        self._changes: dict[tuple[type, Any], tuple[Any, Any]] = {}
        self._stage = _NEW

    @property
    def puts(self) -> list[tuple[Any, Any]]:
        """The collected puts."""
        return [(key, value) for key, value in self._changes.values() if value is not _DELETED]

    @property
    def deletes(self) -> list[Any]:
        """The keys of the collected deletes."""
        return [key for key, value in self._changes.values() if value is _DELETED]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put, at the end of the block."""
        if self._stage is not _OPEN:
            raise _closed(self._stage)
        self._changes[type(key), key] = (key, value)

    def __delitem__(self, key: Any) -> None:
        """Delete, at the end of the block, whether the key is there or not."""
        self[key] = _DELETED

    def update(self, items: Items) -> None:
        """Put all items, at the end of the block."""
        for key, value in items.items() if isinstance(items, Mapping) else items:
            self[key] = value

    def __enter__(self) -> Self:
        if self._stage is not _NEW:
            raise _closed("was used before")
        self._stage = _OPEN
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised."""
        self._stage = _OVER
        if kind is None:
            self._commit(self)


def _closed(state: str) -> TransactionClosed:
    return TransactionClosed(
        f"this transaction {state}; this call wrote nothing.", hint="Change keys inside its `with` block, one for each."
    )


def nonce(clock: Clock = SYSTEM) -> str:
    """A text that no other write of a record has."""
    return f"{clock.random_bits(64):016x}"


def plain(record: msgspec.Struct) -> dict[str, Any]:
    """A record as the map has it."""
    value: dict[str, Any] = msgspec.to_builtins(record)
    return value


def read_record(state: StateMap, key: str, kind: type[R]) -> R | None:
    """The record of a key, None if it has none."""
    value = state.get(key)
    return None if value is None else msgspec.convert(value, kind)


def unchanged(key: str, found: object) -> dict[str, Any]:
    """The condition that a key still has the record, or the value, that was found there. None: that it is absent."""
    value = plain(found) if isinstance(found, msgspec.Struct) else found
    return {key: ABSENT if value is None else value}


def exchange(
    state: StateMap,
    key: str,
    before: msgspec.Struct | None,
    after: msgspec.Struct,
    puts: Items = (),
    deletes: Iterable[Any] = (),
    others: Mapping[Any, Any] = _NO_OTHERS,
) -> bool:
    """Put a record and make changes in one transaction, if the key still has the record `before` and the `others` hold, too.

    `after.write` must be unlike any other write of the key. So a transaction of unknown outcome is sent again as it is: if it was
    done, its record is there, and it is not done again. `CommitUnknown` is left for a store that goes on not to answer, for a
    record that another process has changed since, and for a condition that does not hold after a try of unknown outcome.
    A map may try by itself, too: then a refusal is asked about once.
    """
    pairs = puts.items() if isinstance(puts, Mapping) else puts
    expected, record = unchanged(key, before), plain(after)
    conditions, items, gone = {**others, **expected}, [*pairs, (key, record)], list(deletes)
    unknown: CommitUnknown | None = None
    for _ in range(_TRIES):
        try:
            if state.commit_if(conditions, items, gone):
                return True
            found = state.get(key)
        except CommitUnknown as error:
            unknown = unknown or error
            continue
        except KvwalError as error:
            if unknown is None:
                raise
            raise unknown from error
        is_done = found is not None and bool(found.get("write") == record["write"])
        if is_done or unknown is None:  # a map that tries again by itself may have done it in an earlier try
            return is_done
        if found is not None and found != expected[key]:
            break
        # As before: the first try was not done, or other keys of it were changed before this one, or it is on its way.
    assert unknown is not None
    raise unknown


class Silence:
    """How long the records of other processes have not changed, as this process sees them. No two clocks are compared."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[Any, float]] = {}

    def is_longer(self, key: str, record: Any, seconds: float) -> bool:
        """Whether this process has seen the record of a key unchanged for more than `seconds`. The caller asks repeatedly."""
        now = self._clock.elapsed()
        seen, since = self._seen.get(key, (None, now))
        if seen != record:
            self._seen[key] = record, now
            return False
        return now - since > seconds

    def forget_others(self, keys: Collection[str]) -> None:
        """Keep what was seen of these keys only."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in keys}
