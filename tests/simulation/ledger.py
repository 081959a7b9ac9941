"""What one business was told and asked: it writes down every call, watches memory take over the log, and asks the checker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal.content.claim import claim_of, is_content
from kvwal.entry import Entry, is_claimed
from kvwal.key_class import kind_of, structure_of
from kvwal.key_codecs import decode_int
from kvwal.log.files.names import log_folder
from kvwal.ports.disk import Disk
from kvwal.store.context import StoreContext, embedded_structures, stored_entries
from kvwal.structures.guards import Now
from kvwal.structures.memory import BusinessMemory
from kvwal.structures.queue.positions import is_of_queue
from kvwal_archive.layout import Place
from tests.simulation.checker import check_calls, check_recovery
from tests.simulation.history import ABSENT, Op, Stamped, Txn, Version, fold
from tests.simulation.history import State as Found
from tests.simulation.machine.disk import NODE, ROOT
from tests.simulation.machine.process import PROCESS
from tests.simulation.values.large import LargeValues, check_beside, check_kept

if TYPE_CHECKING:
    from tests.simulation.world import World


class Ledger:
    """The record of one business over all its openings.

    `log` is what the last opening found, `since` what memory took over since then, `ops` are the calls since then. `durable`
    counts the transactions that no crash may take, `confirmed` the entries that the archive was said to hold. `compacted` is the
    horizon of the archive when the log was last taken over from it. `is_hurt`: bytes beside the log are damaged now, on purpose.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.log: list[Txn] = []
        self.since: list[Txn] = []
        self.ops: list[Op] = []
        self.live: dict[int, Op] = {}
        self.durable = 0
        self.confirmed = 0
        self.compacted = 0
        self.hints: dict[str, Any] = {}
        self.large = LargeValues(name)
        self.is_hurt = False
        self.folder = log_folder(ROOT, Place("default", "local", name, NODE))
        self._found: list[Entry] | None = None
        self._kept: int | None = None

    def begin(self, kind: str, **asked: Any) -> Op:
        """A call begins."""
        wall = self.world.clock.wall_ms()
        op = Op(self.world.next_number(), kind, self.world.tick(), wall, self.world.clock.highest, **asked)
        self.ops.append(op)
        self.live[op.number] = op
        self.world.happened("begin", op)
        return op

    def end(self, op: Op, outcome: str, answer: Any = None) -> None:
        """It was answered, refused, or ended without saying whether it was done."""
        del self.live[op.number]
        op.low = min(op.low, self.world.clock.wall_ms())
        op.high = self.world.clock.highest
        op.horizon = self.world.horizon(self)
        op.ended, op.outcome, op.answer = self.world.tick(), outcome, answer
        self.world.happened("end", op)
        if op.sync and outcome == "done":
            self.is_durable()

    def clock_jumped(self) -> None:
        """A call under way may have seen the time before, or after."""
        wall = self.world.clock.wall_ms()
        for op in self.live.values():
            op.low = min(op.low, wall)

    def is_durable(self) -> None:
        """Everything so far survives every later fault, under every flush policy."""
        self.is_durable_up_to(self.last_place)

    def is_durable_up_to(self, place: int) -> None:
        """The first so many transactions do."""
        self.durable = max(self.durable, place)

    def may_lose_after(self, count: int) -> None:
        """The next opening need not find more than the first `count` transactions."""
        self._kept = count if self._kept is None else min(self._kept, count)

    @property
    def last_place(self) -> int:
        """How many transactions there are now."""
        return len(self.log) + len(self.since)

    @property
    def last(self) -> int:
        """The last timestamp that memory took over."""
        txns = self.since or self.log
        return txns[-1].timestamp if txns else 0

    def up_to(self, sequence: int) -> int:
        """How many transactions the first entries, up to this sequence, are."""
        count = 0
        for index, txn in enumerate((*self.log, *self.since)):
            count += len(txn.changes)
            if count > sequence:
                return index
        return self.last_place

    def opening(self) -> None:
        """From now on memory is filled by recovery."""
        self._found = []

    def forget(self) -> None:
        """Recovery began again."""
        self._found = []

    def applied(self, entries: Sequence[Entry]) -> None:
        """Memory took these over."""
        if self._found is not None:
            self._found += entries
        else:
            if not self.is_hurt:
                check_beside(entries, self.world.machine.memory, self.folder, "when they were logged")
            self.since += self._txns(entries)

    def opened(self, last: int) -> None:
        """Recovery is over, and the log ends with `last`."""
        entries, self._found = self._found or [], None
        known = [*self.log, *self.since]
        newer = self._txns([entry for entry in entries if entry.timestamp > self.last])
        check_kept(self._live(entries), self.world, self.folder, self.name, "after opening")
        self.settle(newer)
        keep, self._kept = len(known) if self._kept is None else self._kept, None
        self.log = check_recovery(known, self.found_in(entries), last, newer, keep, self.compacted)
        self._count(known, newer)
        self.since, self.ops, self.live = [], [], {}
        self.durable = len(self.log)

    def settle(self, newer: Sequence[Txn] = ()) -> None:
        """Judge the calls since the last opening; `newer` is what the next one found after them."""
        moves = self.world.moves_values
        check_calls(self.log, [*self.since, *newer], self.ops, self.world.clock.highest, moves=moves)

    def restored(self, entries: Sequence[Entry], disk: Disk, folder: Path) -> None:
        """A restore into a folder elsewhere found these entries. The bytes of large values came along."""
        latest = fold([*self.log, *self.since])
        there = [entry for entry in self._live(entries) if latest[name_of(entry)].timestamp == entry.timestamp]
        large = [entry for entry in there if is_claimed(entry.value_class)]
        check_beside(large, disk, folder, "after a restore")
        if large:
            self.world.met("values: restored elsewhere with their bytes")

    def found_in(self, entries: Sequence[Entry]) -> Found:
        """What entries in the order of their log leave; no deletes."""
        found = {name_of(entry): Stamped(entry.timestamp, self.version_of(entry)) for entry in entries}
        return {key: stamped for key, stamped in found.items() if stamped.version.value is not ABSENT}

    def version_of(self, entry: Entry) -> Version:
        """As `to_version`; of a large value it is known what was written."""
        if entry.deleted or not is_claimed(entry.value_class):
            return to_version(entry)
        return Version(self.large.value_of(entry), entry.expires)

    def _txns(self, entries: Sequence[Entry]) -> list[Txn]:
        """Entries in the order of their log, as its transactions."""
        txns = []
        for timestamp, group in groupby(entries, key=lambda entry: entry.timestamp):
            txns.append(Txn(timestamp, {name_of(entry): self.version_of(entry) for entry in group}))
        return txns

    def _live(self, entries: Iterable[Entry]) -> list[Entry]:
        """The latest entries that no clock can have taken for expired."""
        latest = {name_of(entry): entry for entry in entries}
        highest = self.world.clock.highest
        return [one for one in latest.values() if not one.deleted and not 0 < one.expires <= highest]

    def _count(self, known: list[Txn], newer: list[Txn]) -> None:
        world = self.world
        if any(op.outcome == "unknown" for op in self.ops):
            world.met("a write of unknown outcome was there" if newer else "writes of unknown outcome were not there")
        if any(len(txn.changes) > 1 for txn in newer):
            world.met("a transaction of unknown outcome was there whole")
        if len(self.log) < len(known):
            world.met("the end of the log was lost, as the policy or the lost disk allows")


def name_of(entry: Any) -> str:
    """The key of an entry; of an item its queue and its number, of a named map its name and the key."""
    if is_of_queue(entry.key_class):
        return f"{structure_of(entry.key_class)}#{decode_int(entry.key)}"
    structure, key = structure_of(entry.key_class), entry.key.decode()
    return f"{structure}#{key}" if kind_of(structure) == "map" else key


def to_version(entry: Any) -> Version:
    """What an entry says of its key; of a content, which bytes it has."""
    if entry.deleted:
        return Version(ABSENT)
    return Version(claim_of(entry).sha256 if is_content(entry.key_class) else entry.value.decode(), entry.expires)


class WatchedMemory(BusinessMemory):
    """Memory that tells its ledger what it takes over."""

    def __init__(self, context: StoreContext, place: Place, now: Now) -> None:
        super().__init__(now, embedded_structures(context, stored_entries(context, place)))
        process = PROCESS.get()
        self._ledger: Ledger | None = process.ledgers.get(place.business) if process is not None else None

    def clear(self) -> None:
        super().clear()
        if self._ledger is not None:
            self._ledger.forget()

    def apply(self, entries: list[Entry]) -> None:
        super().apply(entries)
        if self._ledger is not None:
            self._ledger.applied(entries)
