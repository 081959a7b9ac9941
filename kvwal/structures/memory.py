"""Memory of a business: which structure keeps its entries in which state, and what is done to all of them together.

One thread at a time applies groups (the holder of the log's turn), any thread reads. A group is applied under one lock, so what
an iterator of any structure shows has whole transactions. An entry of a structure that is not on the list is kept as it is: the
latest of each identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Protocol, TypeAlias

from kvwal.content.claim import claim_of, has_claim
from kvwal.entry import AWAY, Entry, is_claimed
from kvwal.key_class import (
    CONTENT,
    DROPPED,
    EVENTS,
    OWN_MAP,
    PROVENANCE,
    QUEUE,
    is_ended_with_map,
    is_of_content,
    is_of_map,
    kind_of,
    structure_of,
)
from kvwal.log.submission import Derive
from kvwal.ports.locks import Lock, RLock
from kvwal.structures.content.state import ContentState
from kvwal.structures.content.stored_names import StoredNames, read_names
from kvwal.structures.destroyed import to_marks
from kvwal.structures.guards import Guards, Now
from kvwal.structures.map.state import MapState
from kvwal.structures.provenance.derive import Deriver
from kvwal.structures.provenance.state import OFF, ProvenanceOptions, ProvenanceState
from kvwal.structures.queue.state import QueueState


class StructureState(Protocol):
    """What one structure keeps in memory. All but `lookup` and `holds_nothing` are called with the business's lock held."""

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """The latest entry of an identity, None if it is absent or has expired."""
        ...

    def apply(self, entries: list[Entry]) -> None:
        """Apply entries of the structure, in the order of the log. Those of a snapshot come in the order of identity."""
        ...

    def clear(self) -> None:
        """Drop all entries: recovery begins again from an older snapshot."""
        ...

    def drop_until(self, timestamp: int) -> None:
        """Drop the entries with timestamps up to `timestamp`: the business was destroyed then."""
        ...

    def drop_expired(self, most: int) -> int:
        """Free the memory of up to `most` expired entries. Returns when the last of them expired (unix ms), 0 for none."""
        ...

    def holds_nothing(self) -> bool:
        """Whether nothing is in the structure: the log of a business that holds nothing may be removed."""
        ...


_class_of = attrgetter("key_class")
Make: TypeAlias = Callable[[Guards], StructureState]
STRUCTURES: dict[str, Make] = {"map": MapState, QUEUE: QueueState, CONTENT: ContentState, PROVENANCE: ProvenanceState}
"""The list of structures: what makes the state of each kind."""


class BusinessMemory:
    """The memory of one business: the state of each of its structures. `map` is that of its own map.

    `derive` adds events to each transaction. It is None unless provenance is switched on.
    """

    def __init__(
        self, now: Now, structures: Mapping[str, Make] = STRUCTURES, node: str = "", stored: StoredNames | None = None
    ) -> None:
        """`node` is that of the log. `stored` are its files, if recovery may leave names of contents in them."""
        self.derive: Derive | None = None
        self._deriver = Deriver(node)
        self._recovers = True
        self._ended: list[Entry] = []
        self.guards = Guards(now, Lock(), Lock(), lambda: self._recovers, self._note_ended)
        self._lock = self.guards.lock
        self.map = MapState(self.guards)
        self._structures = structures
        self._states: dict[str, StructureState] = {OWN_MAP: self.map}
        self._own: set[str] = set()
        self._stored = stored
        self._unread = False  # the names of contents are only in the files of the log
        self._reading = RLock()
        self._dropped_until = -1
        self.claim_changes: int | None = None
        """How many entries were applied that may end a claim of a value, or begin one. None if no value of the log is a claim."""
        self._named: set[str] | None = None

    def state(self, structure: str) -> StructureState:
        """The state of a structure. It is empty if the business has no entry of it.

        The first one of contents may read their names from the files: see `read_names`, also for its errors.
        """
        if self._unread and kind_of(structure) == CONTENT:
            self._read_contents()
        state = self._states.get(structure)
        if state is None:
            make = self._structures.get(kind_of(structure), MapState)
            state = self._states.setdefault(structure, make(self.guards))  # of two threads one makes it
        return state

    def structures_of(self, kind: str) -> list[str]:
        """The structures of a kind that hold something, sorted. Names of contents may be read as by `state`."""
        if self._unread and kind == CONTENT:
            self._read_contents()
        states = list(self._states.items())
        return sorted(name for name, state in states if kind_of(name) == kind and not state.holds_nothing())

    @property
    def provenance(self) -> ProvenanceOptions:
        """The options of the events of the business."""
        state = self._states.get(PROVENANCE)
        return state.options if isinstance(state, ProvenanceState) else OFF

    def queues(self) -> dict[str, QueueState]:
        """The states of the queues by structure, also of those that hold nothing."""
        return {name: state for name, state in list(self._states.items()) if isinstance(state, QueueState)}

    def contents(self) -> dict[str, ContentState]:
        """The states of the contents by structure, also of those that hold nothing; none while their names are unread."""
        return {name: state for name, state in list(self._states.items()) if isinstance(state, ContentState)}

    def latest_kept(self) -> Iterator[Entry]:
        """The entries of the maps and contents, one table after the other, in no order. Each table is that of one moment.

        Names of contents may be read as by `state`.
        """
        if self._unread:
            self._read_contents()
        for state in list(self._states.values()):
            if isinstance(state, MapState):
                for table in list(state.tables.values()):
                    yield from list(table.values())

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """The latest entry of an identity of any structure, None if it is absent or has expired."""
        return self.state(structure_of(key_class)).lookup(key_class, key)

    def apply(self, entries: list[Entry]) -> None:
        """Apply a group, in the order of the log."""
        with self._lock:
            if self.derive is not None:
                entries = [entry for entry in entries if entry.key_class != EVENTS]
            if self._unread and self._recovers:
                entries = [entry for entry in entries if not is_of_content(entry.key_class)]
            if self.claim_changes is not None:
                self.claim_changes += sum(map(self._changes_claim, entries))
            if self._named is not None:
                self._named.update(claim_of(entry).file for entry in entries if has_claim(entry))
            own = self._own
            for entry in entries:
                if entry.key_class not in own:
                    break
            else:  # nearly always; `issuperset` takes three times as long for one entry
                self.map.apply(entries)
                return
            for key_class, part in groupby(entries, key=_class_of):
                state = self.state(structure_of(key_class))
                state.apply(list(part))
                if isinstance(state, ProvenanceState):
                    self.derive = self._deriver if state.options.on else None
                elif is_of_map(key_class):
                    own.add(key_class)

    def holds_claims(self) -> None:
        """A value of a map or a queue is a claim, or is going to be one: count the changes from here on."""
        if self.claim_changes is None:
            self.claim_changes = 0

    def note_named(self) -> set[str]:
        """Begin to note the claim files that entries name which are applied from here on. The set that is returned gets them,
        until `end_noting`, or until the next one begins.
        """
        with self._lock:
            self._named = named = set[str]()
        return named

    def end_noting(self) -> None:
        """Note them no longer."""
        with self._lock:
            self._named = None

    def _changes_claim(self, entry: Entry) -> bool:
        """Whether an entry that is to be applied may end a claim: the file of the value that it replaces may be collected."""
        if entry.deleted or is_claimed(entry.value_class):
            return True
        old = self.state(structure_of(entry.key_class)).lookup(entry.key_class, entry.key)
        return old is not None and is_claimed(old.value_class)

    def clear(self) -> None:
        """Drop all entries: recovery begins again from an older snapshot."""
        with self._lock:
            self.derive = None
            self._unread = False
            for state in list(self._states.values()):
                state.clear()

    @property
    def passed(self) -> Callable[[], None] | None:
        """See `RecoveryTarget.passed`."""
        return None if self._stored is None else self._forget_contents

    def _forget_contents(self) -> None:
        """The files have names of contents that were not applied: leave all of them there for now."""
        with self._lock:
            self._unread = True
            for structure in self.contents():
                del self._states[structure]

    def _read_contents(self) -> None:
        """Read the names of contents. What is written meanwhile is in the files, too: nobody changes a content before this."""
        assert self._stored is not None, "nothing was passed"
        with self._reading:
            if not self._unread:
                return
            states: dict[str, StructureState] = {}
            for key_class, part in groupby(read_names(self._stored), key=_class_of):
                state = states.setdefault(structure_of(key_class), self._structures[CONTENT](self.guards))
                state.apply(list(part))
            for state in states.values():
                state.drop_until(self._dropped_until)
            if self._unread:  # a signal handler on this thread may have read them, too
                self._states.update(states)
                self._unread = False

    def recovered(self) -> None:
        """The log was recovered, and its files can be read again. Raises `CorruptLog` and `OSError`."""
        self.drop_destroyed()
        self._recovers = False
        for queue in self.queues().values():
            queue.recovered()

    def drop_destroyed(self) -> None:
        """After recovery, drop the entries of a map that was destroyed: logs of a cluster have marks of that."""
        kept = self.state(structure_of(DROPPED))
        found = [entry for key in (b"", AWAY) if (entry := kept.lookup(DROPPED, key)) is not None]
        until = to_marks(("", entry) for entry in found).until("")
        if until < 0:
            return
        with self._lock:
            self._dropped_until = until
            for structure, state in list(self._states.items()):
                if is_ended_with_map(structure):
                    state.drop_until(until)

    def drop_expired(self, most: int) -> int:
        """Free the memory of up to `most` expired entries of each structure. Returns when the last of them expired (unix ms).

        0 if there was none. No result of another method changes, because expired entries were absent before.
        """
        with self._lock:
            return max(state.drop_expired(most) for state in list(self._states.values()))

    def _note_ended(self, entry: Entry) -> None:
        """Remember an entry that expires and is freed or replaced, if it has expired, and no event told of it yet."""
        if self.derive is not None and not self._recovers:
            state = self._states[PROVENANCE]
            swept = state.swept if isinstance(state, ProvenanceState) else 0
            if swept < entry.expires <= self.guards.now():
                self._ended.append(entry)

    def take_expired(self) -> list[Entry]:
        """The entries that have expired since the last call, and of which events are to tell."""
        with self._lock:
            ended, self._ended = self._ended, []
        return ended

    def holds_nothing(self) -> bool:
        """Whether the business has no entry. An expired one counts until it is dropped."""
        return not self._unread and all(state.holds_nothing() for state in list(self._states.values()))
