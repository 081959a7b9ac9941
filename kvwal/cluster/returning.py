"""A member that was away compares what its own log took last with what the others have, and makes what is newer once more.

What it wrote alone, before it noticed that it was alone, is in its log and in nobody's memory. Deletes count as much as puts.
Others write meanwhile, so a change is made again only of a locked key, once the archive shows that no log has a newer one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.objects import Objects
from archive.reader import listed_again, read_rows
from archive.registry import registered
from archive.restore import businesses, restore_batches
from archive.view import parts
from kvwal.entry import TIMESTAMP_SHIFT

if TYPE_CHECKING:
    import pyarrow as pa

Identity = tuple[str, bytes]
Value = tuple[str, bytes]
WINDOW_MS = 20_000
"""For how long a member may have served alone without having noticed."""


class Change(NamedTuple):
    """The last that a log has of a key. `value` is None for a delete, `expires` 0 for never."""

    key_class: str
    key: bytes
    value_class: str
    value: bytes | None
    timestamp: int
    expires: int

    @property
    def identity(self) -> Identity:
        """Which key it is."""
        return self.key_class, self.key


class Suspect(NamedTuple):
    """A change that this member's log has, and memory seems not to have. It is to be as `live` says, None for absent; `before`
    is what memory holds if nobody has changed the key since, None among it for nothing."""

    business: str
    mine: Change
    live: Value | None
    before: frozenset[Value | None]


class Memory(Protocol):
    """What the cluster holds of single keys. Every call may wait for the others, and all are made by one thread."""

    def read(self, business: str, key: Identity) -> Value | None:
        """What it holds, behind all changes that are on their way; None for nothing."""
        ...

    def lock(self, business: str, key: Identity) -> None:
        """Until `unlock`, nobody else changes the key. `ClusterUnreachable` if somebody else keeps it locked."""
        ...

    def unlock(self, business: str, key: Identity) -> None:
        """Of a key that this one has locked."""
        ...

    def write(self, business: str, key: Identity, value: Value | None, expires: int) -> None:
        """As a client would; None deletes, `expires` is in unix ms and 0 for never."""
        ...


class Returning:
    """Compares once. It reads the archive, so all members have to have archived their tails: before `suspects`, and once more
    between `lock` and `again`.
    """

    def __init__(
        self,
        objects: Objects,
        namespace: str,
        cluster: str,
        node: str,
        memory: Memory,
        *,
        now_ms: int,
        mark: str,
        is_of_map: Callable[[str], bool],
    ) -> None:
        """`mark` is the key class of the mark of a destroyed map; `is_of_map` says whether entries of a class are of a map."""
        self._objects = objects
        self._where = (namespace, cluster)
        self._node = node
        self._memory = memory
        self._now_ms = now_ms
        self._mark = mark
        self._is_of_map = is_of_map
        self._locked: list[tuple[str, Identity]] = []

    def suspects(self, apart_ms: int) -> list[Suspect]:
        """What memory may lack. `apart_ms` is since when it may have been alone; what its log took last is looked at in any
        case."""
        return [found for name in businesses(self._objects, *self._where) for found in self._of(name, apart_ms)]

    def lock(self, suspects: Collection[Suspect]) -> list[Suspect]:
        """Lock these keys; those of which memory lacks the change still."""
        for suspect in suspects:
            self._memory.lock(suspect.business, suspect.mine.identity)
            self._locked.append((suspect.business, suspect.mine.identity))
        return [suspect for suspect in suspects if self._is_lacking(suspect)]

    def again(self, suspects: Iterable[Suspect]) -> Counter[str]:
        """Make the changes that `lock` returned, if no log has a newer one by now; how many of each business those were."""
        counts: Counter[str] = Counter()
        of_business: dict[str, dict[Identity, Suspect]] = {}
        for suspect in suspects:
            of_business.setdefault(suspect.business, {})[suspect.mine.identity] = suspect
        for business, found in of_business.items():
            for identity in found.keys() - self._changed(business, [suspect.mine for suspect in found.values()]):
                self._memory.write(business, identity, found[identity].live, found[identity].mine.expires)
                counts[business] += 1
        return counts

    def unlock(self) -> None:
        """Whatever is locked."""
        while self._locked:
            self._memory.unlock(*self._locked[-1])
            self._locked.pop()

    def _of(self, business: str, apart_ms: int) -> Iterator[Suspect]:
        nodes = {place.node for place in registered(self._objects, *self._where, business)}
        if self._node not in nodes:
            return
        own = restore_batches(self._objects, *self._where, business, nodes={self._node: None})
        since = min(apart_ms << TIMESTAMP_SHIFT, own.max_timestamp - (WINDOW_MS << TIMESTAMP_SHIFT))
        mine = {change.identity: change for change in self._changes(own.batches, since)}
        if not mine:
            return
        before = self._before(business, nodes - {self._node}, since, mine)
        if any(self._is_mark(change) for change in (*mine.values(), *before)):
            return  # what a destroyed map held must not come back
        earlier: dict[Identity, list[Change]] = {}
        for change in before:
            earlier.setdefault(change.identity, []).append(change)
        for identity, change in mine.items():
            suspect = self._suspect(business, change, earlier.get(identity, []))
            if suspect is not None and self._is_lacking(suspect):
                yield suspect

    def _before(self, business: str, others: set[str], since: int, wanted: Collection[Identity]) -> list[Change]:
        """What memory may hold of `wanted` keys: the last of the others, and all of this member's from shortly before `since`."""
        where = (self._objects, *self._where, business)
        found = list(self._changes(restore_batches(*where, nodes={self._node: None}, at=since).batches, 0))
        if others:
            found += self._changes(restore_batches(*where, nodes=dict.fromkeys(others)).batches, 0)
        found += self._after(business, {self._node: None}, since)
        return [change for change in found if change.identity in wanted or change.key_class == self._mark]

    def _suspect(self, business: str, mine: Change, before: list[Change]) -> Suspect | None:
        if any(change.timestamp > mine.timestamp for change in before):
            return None
        earlier = {self._live(change) for change in before if change.timestamp < mine.timestamp}
        return Suspect(business, mine, self._live(mine), frozenset(earlier or {None}))

    def _is_lacking(self, suspect: Suspect) -> bool:
        held = self._memory.read(suspect.business, suspect.mine.identity)
        return held != suspect.live and held in suspect.before

    def _changed(self, business: str, changes: list[Change]) -> set[Identity]:
        """Those of which any log has a newer change: all of them, if the map was destroyed since."""
        wanted = {change.identity: change.timestamp for change in changes}
        newer = self._after(business, None, min(wanted.values()))
        if any(self._is_mark(change) for change in newer):
            return set(wanted)
        return {change.identity for change in newer if change.timestamp > wanted.get(change.identity, change.timestamp)}

    def _after(self, business: str, nodes: dict[str, int | None] | None, since: int) -> list[Change]:
        """All that the logs of `nodes`, or of all, took after `since`, not only what was the last of a key."""

        def read() -> list[Change]:
            infos = (info for part in parts(self._objects, *self._where, business, nodes) for info in part.infos)
            tables = (read_rows(self._objects, info) for info in infos if info.footer.max_timestamp > since)
            return [change for table in tables for change in self._changes(table.to_batches(), since)]

        return listed_again(read)

    def _live(self, change: Change) -> Value | None:
        if change.value is None or 0 < change.expires <= self._now_ms:
            return None
        return change.value_class, change.value

    def _is_mark(self, change: Change) -> bool:
        return change.key_class == self._mark and change.value is not None

    def _changes(self, batches: Iterable[pa.RecordBatch], since: int) -> Iterator[Change]:
        """Those after `since`."""
        import pyarrow.compute as pc

        for batch in batches:
            rows = batch.filter(pc.greater(batch.column("timestamp"), since)).to_pylist()
            for row in rows:
                if row["key_class"] == self._mark or self._is_of_map(row["key_class"]):
                    value = None if row["deleted"] else row["value"]
                    yield Change(
                        row["key_class"], row["key"], row["value_class"], value, row["timestamp"], row["expires"] or 0
                    )
