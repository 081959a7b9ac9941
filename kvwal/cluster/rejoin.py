"""Rejoin rules: a member that was away compares the last entries of its own log with memory, and writes the newer ones again.

Changes that it logged alone, before it noticed that it was alone, are in no member's memory. Deletes count as much as puts.
Clients write meanwhile, so a change is written again only under a lock on its key, once the archive shows that no log has a newer
change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvwal.entry import TIMESTAMP_SHIFT
from kvwal_archive.objects import Objects
from kvwal_archive.reader import listed_again, read_rows
from kvwal_archive.registry import registered
from kvwal_archive.restore import businesses, restore_batches
from kvwal_archive.view import parts

if TYPE_CHECKING:
    import pyarrow as pa

Identity = tuple[str, bytes]
Value = tuple[str, bytes]
WINDOW_MS = 20_000
"""For how long a member may have served alone without having noticed."""


class LastChange(NamedTuple):
    """The last change of a key in a log. `value` is None for a delete, `expires` 0 for never."""

    key_class: str
    key: bytes
    value_class: str
    value: bytes | None
    timestamp: int
    expires: int

    @property
    def identity(self) -> Identity:
        """The identity of its key."""
        return self.key_class, self.key


class Suspect(NamedTuple):
    """A change that this member's log has and memory seems to lack. `live` is the value that memory should hold, `before` has the
    values that memory may hold while no member has written the key since. In both, None means that memory has no entry."""

    business: str
    change: LastChange
    live: Value | None
    before: frozenset[Value | None]


class Locked(NamedTuple):
    """A suspect whose key is locked, and what memory holds of it."""

    suspect: Suspect
    held: Value | None


class LockableMemory(Protocol):
    """The cluster's memory of single keys. Every call may wait for other members. One thread makes all calls."""

    def read(self, business: str, key: Identity) -> Value | None:
        """The value of the key after all changes that are on their way; None for nothing."""
        ...

    def lock(self, business: str, key: Identity) -> None:
        """Lock the key until `unlock`, for all clients that heed locks. `ClusterUnreachable` if a client keeps it locked."""
        ...

    def unlock(self) -> None:
        """Unlock all locked keys. `ClusterUnreachable` if one could not be unlocked: call it again."""
        ...

    def compare_and_set(
        self, business: str, key: Identity, held: Value | None, value: Value | None, expires: int
    ) -> bool:
        """Replace `held` by `value`, as a client would. Returns whether memory still held `held`.

        None is nothing; `expires` is in unix ms, 0 for never.
        """
        ...


class RejoinComparison:
    """One comparison. It reads the archive, so all members have to have archived their tails: before `suspects`, and once more
    between `lock` and `again`.
    """

    def __init__(
        self,
        objects: Objects,
        namespace: str,
        cluster: str,
        node: str,
        memory: LockableMemory,
        *,
        logged: Mapping[str, int],
        now_ms: int,
        skew_ms: int,
        mark: str,
        is_data: Callable[[str], bool],
    ) -> None:
        """`logged` is the timestamp of the last entry that the log of each business held before this member took part again;
        `skew_ms` how far apart the members' clocks may have been. `mark` is the key class of the mark of a destroyed map;
        `is_data` says whether callers put entries of a class.
        """
        self._objects = objects
        self._where = (namespace, cluster)
        self._node = node
        self._memory = memory
        self._logged = logged
        self._now_ms = now_ms
        self._skew = skew_ms << TIMESTAMP_SHIFT
        self._mark = mark
        self._is_data = is_data

    def suspects(self, apart_ms: int) -> list[Suspect]:
        """The changes that memory may lack. `apart_ms`: since when this member may have been alone. The last changes of its log
        are checked in any case."""
        return [
            suspect for name in businesses(self._objects, *self._where) for suspect in self._suspects_of(name, apart_ms)
        ]

    def lock(self, suspects: Iterable[Suspect]) -> list[Locked]:
        """Lock the keys of `suspects`. Returns the suspects whose change memory still lacks."""
        locked_keys = []
        for suspect in suspects:
            self._memory.lock(suspect.business, suspect.change.identity)
            locked_keys.append(Locked(suspect, self._memory.read(suspect.business, suspect.change.identity)))
        return [locked for locked in locked_keys if _is_lacking(*locked)]

    def write_again(self, lacking: Iterable[Locked]) -> Counter[str]:
        """Write the changes that `lock` returned, unless a log has a newer one by now. Returns their number, by business."""
        counts: Counter[str] = Counter()
        of_business: dict[str, dict[Identity, Locked]] = {}
        for locked in lacking:
            of_business.setdefault(locked.suspect.business, {})[locked.suspect.change.identity] = locked
        for business, among in of_business.items():
            changed = self._changed(business, [locked.suspect.change for locked in among.values()])
            for identity in among.keys() - changed:
                suspect, held = among[identity]
                counts[business] += self._memory.compare_and_set(
                    business, identity, held, suspect.live, suspect.change.expires
                )
        return +counts

    def _suspects_of(self, business: str, apart_ms: int) -> Iterator[Suspect]:
        nodes = {place.node for place in registered(self._objects, *self._where, business)}
        end = self._logged.get(business, 0)
        if self._node not in nodes or not end:
            return
        since = min(apart_ms << TIMESTAMP_SHIFT, end - (WINDOW_MS << TIMESTAMP_SHIFT))
        own = restore_batches(self._objects, *self._where, business, nodes={self._node: None})
        mine = {change.identity: change for change in self._changes(own.batches, since) if change.timestamp <= end}
        if not mine:
            return
        before = self._before(business, nodes - {self._node}, since, mine)
        # What a destroyed map held must not come back.
        dropped = max((change.timestamp + self._skew for change in before if self._is_mark(change)), default=0)
        earlier: dict[Identity, list[LastChange]] = {}
        for change in before:
            earlier.setdefault(change.identity, []).append(change)
        for identity, change in mine.items():
            if change.timestamp > dropped and change.key_class != self._mark:
                suspect = self._suspect(business, change, earlier.get(identity, []), dropped)
                if suspect is not None and _is_lacking(suspect, self._memory.read(business, identity)):
                    yield suspect

    def _before(self, business: str, others: set[str], since: int, wanted: Collection[Identity]) -> list[LastChange]:
        """What memory may hold of `wanted` keys: the last of the others, and all of this member's from shortly before `since`."""
        where = (self._objects, *self._where, business)
        keys = {key for _, key in wanted}
        changes = list(self._changes(restore_batches(*where, nodes={self._node: None}, at=since).batches, 0, keys))
        if others:
            changes += self._changes(restore_batches(*where, nodes=dict.fromkeys(others)).batches, 0, keys)
        return changes + self._after(business, {self._node: None}, since, keys)

    def _suspect(self, business: str, mine: LastChange, before: list[LastChange], dropped: int) -> Suspect | None:
        if any(change.timestamp > mine.timestamp for change in before):
            return None
        values: set[Value | None] = set()
        for change in before:
            if change.timestamp < mine.timestamp:
                values |= _values(change) if change.timestamp > dropped else {None}
        ended = mine.value is None or 0 < mine.expires <= self._now_ms
        live = None if ended else (mine.value_class, mine.value or b"")
        return Suspect(business, mine, live, frozenset(values or {None}))

    def _changed(self, business: str, changes: list[LastChange]) -> set[Identity]:
        """The identities of those `changes` for which a log has a newer change; all of them if the map was destroyed since."""
        wanted = {change.identity: change.timestamp for change in changes}
        newer = self._after(business, None, min(wanted.values()), {key for _, key in wanted})
        if any(self._is_mark(change) for change in newer):
            return set(wanted)
        return {change.identity for change in newer if change.timestamp > wanted.get(change.identity, change.timestamp)}

    def _after(
        self, business: str, nodes: dict[str, int | None] | None, since: int, keys: AbstractSet[bytes]
    ) -> list[LastChange]:
        """All changes of these keys after `since` in the logs of `nodes` (None: all nodes), not only the last of each key."""

        def read() -> list[LastChange]:
            infos = (info for part in parts(self._objects, *self._where, business, nodes) for info in part.infos)
            tables = (read_rows(self._objects, info) for info in infos if info.footer.max_timestamp > since)
            return [change for table in tables for change in self._changes(table.to_batches(), since, keys)]

        return listed_again(read)

    def _is_mark(self, change: LastChange) -> bool:
        return change.identity == (self._mark, b"") and change.value is not None

    def _changes(
        self, batches: Iterable[pa.RecordBatch], since: int, keys: AbstractSet[bytes] | None = None
    ) -> Iterator[LastChange]:
        """The changes after `since`. With `keys` only the changes of these keys, and the marks."""
        import pyarrow.compute as pc

        for batch in batches:
            chosen = pc.greater(batch.column("timestamp"), since)
            if keys is not None:
                wanted = _is_among(batch.column("key"), keys)
                chosen = pc.and_(chosen, pc.or_(wanted, pc.equal(batch.column("key_class"), self._mark)))
            for row in batch.filter(chosen).to_pylist():
                if row["key_class"] == self._mark or self._is_data(row["key_class"]):
                    value = None if row["deleted"] else row["value"]
                    yield LastChange(
                        row["key_class"], row["key"], row["value_class"], value, row["timestamp"], row["expires"] or 0
                    )


def _is_among(column: pa.BinaryArray, keys: AbstractSet[bytes]) -> pa.BooleanArray:
    """Mask of the keys of a column that are among `keys`.

    Arrow hashes all of `keys` anew at each call, so it is asked only where the column is the longer one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(keys) > len(column):
        return pa.array([key in keys for key in column.to_pylist()], pa.bool_())
    return pc.is_in(column, value_set=pa.array(list(keys), type=column.type))


def _values(change: LastChange) -> set[Value | None]:
    """What memory holds after a change; of an entry that ends either, since each member's clock says when that is."""
    if change.value is None:
        return {None}
    value = (change.value_class, change.value)
    return {value, None} if change.expires else {value}


def _is_lacking(suspect: Suspect, held: Value | None) -> bool:
    return held != suspect.live and held in suspect.before
