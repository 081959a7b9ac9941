"""Base of the records of a job's state: the map that they need, collected changes, and the commit by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from kvwal.errors import CommitUnknown, KvwalError, TransactionClosed
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.spark.ledger import PREFIX as PREFIX

_TRIES = 3


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
        self._puts: dict[tuple[type, Any], tuple[Any, Any]] = {}
        self._deletes: dict[tuple[type, Any], Any] = {}
        self._is_open = False
        self._is_over = False

    @property
    def puts(self) -> list[tuple[Any, Any]]:
        """The collected puts."""
        return list(self._puts.values())

    @property
    def deletes(self) -> list[Any]:
        """The keys of the collected deletes."""
        return list(self._deletes.values())

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put, at the end of the block."""
        self._check_open()
        self._deletes.pop((type(key), key), None)
        self._puts[type(key), key] = (key, value)

    def __delitem__(self, key: Any) -> None:
        """Delete, at the end of the block, whether the key is there or not."""
        self._check_open()
        self._puts.pop((type(key), key), None)
        self._deletes[type(key), key] = key

    def update(self, items: Items) -> None:
        """Put all items, at the end of the block."""
        for key, value in items.items() if isinstance(items, Mapping) else items:
            self[key] = value

    def __enter__(self) -> Self:
        if self._is_open or self._is_over:
            raise _closed("was used before")
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised."""
        self._is_open, self._is_over = False, True
        if kind is None:
            self._commit(self)

    def _check_open(self) -> None:
        if not self._is_open:
            raise _closed("is over" if self._is_over else "was not begun")


def _closed(state: str) -> TransactionClosed:
    return TransactionClosed(
        f"this transaction {state}; this call wrote nothing.", hint="Change keys inside its `with` block, one for each."
    )


def nonce(clock: Clock = SYSTEM) -> str:
    """A text that no other write of a record has."""
    return f"{clock.random_bits(64):016x}"


def exchange(
    state: StateMap,
    key: str,
    conditions: Mapping[Any, Any],
    record: Mapping[str, Any],
    puts: Items,
    deletes: Iterable[Any] = (),
) -> bool:
    """Put a record and make changes in one transaction, if the conditions hold; one of them is on the key of the record.

    The record must be unlike any other write of its key. So a transaction of unknown outcome is sent again as it is: if it was
    done, its record is there, and it is not done again. `CommitUnknown` is left for a store that goes on not to answer, for a
    record that another process has changed since, and for a condition that does not hold after a try of unknown outcome.
    A map may try by itself, too: then a refusal is asked about once.
    """
    pairs = puts.items() if isinstance(puts, Mapping) else puts
    items, gone = [*pairs, (key, dict(record))], list(deletes)
    unknown: CommitUnknown | None = None
    for _ in range(_TRIES):
        try:
            if state.commit_if(conditions, items, gone):
                return True
            found = state.get(key)
            if unknown is None:  # a map that tries again by itself may have done it in an earlier try
                return found is not None and bool(found.get("write") == record["write"])
        except CommitUnknown as error:
            unknown = unknown or error
        except KvwalError as error:
            if unknown is None:
                raise
            raise unknown from error
        else:
            if found is not None and found.get("write") == record["write"]:
                return True
            if found is not None and found != conditions.get(key):
                break
            # As before: the first try was not done, or other keys of it were changed before this one, or it is on its way.
    assert unknown is not None
    raise unknown
