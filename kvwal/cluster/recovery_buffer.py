"""Recovery buffer: the entries of a recovered log on their way to Hazelcast, which is the memory of a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kvwal.cluster.transactions import changes_of, with_changes
from kvwal.entry import AWAY, Ended, Entry, is_claimed
from kvwal.errors import ConfigError
from kvwal.key_class import DROPPED, EVENTS, INTENT, is_ended_by_destroy, is_schema
from kvwal.structures.guards import Now
from kvwal.structures.map.state import MapState
from kvwal.structures.memory import BusinessMemory


def is_dropped(entry: Entry, timestamp: int) -> bool:
    """Whether the destruction of the map at `timestamp` ended this entry."""
    return entry.timestamp <= timestamp and is_ended_by_destroy(entry.key_class)


def _check_values(entries: list[Entry]) -> None:
    """Raise `ConfigError` for a value that stands beside the log, where only an embedded store looks."""
    beside = next((entry for entry in entries if is_claimed(entry.value_class)), None)
    if beside is not None:
        raise ConfigError(
            f"the value of {beside.key[:40]!r} stands beside the log: an embedded store wrote it, and a member has all values in"
            " memory.",
            hint="Let the member load the archive of that store, or `kvwal export` it and import it into the cluster.",
        )


class RecoveryBuffer(BusinessMemory):
    """Collects the latest entries while a log is recovered, and hands them over once. Then it keeps nothing."""

    def __init__(self, now: Now, *, collects: bool = True) -> None:
        """`collects`: memory is filled from this log, and not from the archive of all members."""
        super().__init__(now)
        self._collecting = collects
        self._put_at = 0
        self._dropped_at = 0
        self._watchers: list[set[tuple[str, bytes]]] = []

    def state(self, structure: str) -> MapState:
        """One state for all structures: what is collected is the latest entry of each identity."""
        return self.map

    def apply(self, entries: list[Entry]) -> None:
        """See `BusinessMemory.apply`."""
        self._note(entries)
        if self._collecting:
            _check_values(entries)
            kept = [entry for entry in entries if entry.key_class != EVENTS]  # events are on disk only
            for part in with_changes(kept, self._is_newer):
                super().apply(part)
        for written in self._watchers:
            written.update((entry.key_class, entry.key) for entry in entries if not entry.deleted)

    def _note(self, entries: list[Entry]) -> None:
        """Entries of a snapshot come in the order of their keys, not of time."""
        for entry in entries:
            if entry.deleted:
                continue
            if entry.key_class == DROPPED:
                until = Ended.of(entry.value).until if entry.key == AWAY else entry.timestamp
                self._dropped_at = max(self._dropped_at, until)
            elif entry.timestamp > self._put_at and not is_schema(entry.key_class):
                self._put_at = entry.timestamp

    @property
    def put_at(self) -> int:
        """The timestamp of the last put that the log had, 0 for none."""
        return self._put_at

    @property
    def was_dropped(self) -> bool:
        """Whether the log has a mark of a destroyed map, with or without puts since."""
        return self._dropped_at > 0

    def holds_nothing(self) -> bool:
        """Whether nothing was put since the map was destroyed, or ever. Schemas serve entries only."""
        return self._put_at <= self._dropped_at

    def _is_newer(self, change: Entry) -> bool:
        kept = self.map.tables.get(change.key_class, {}).get(change.key)
        return kept is not None and kept.timestamp > change.timestamp

    @contextmanager
    def watching(self) -> Iterator[set[tuple[str, bytes]]]:
        """A set that gets every identity that is put while the context lasts. Used on the log writer's loop."""
        written: set[tuple[str, bytes]] = set()
        self._watchers.append(written)
        try:
            yield written
        finally:
            self._watchers = [other for other in self._watchers if other is not written]

    def drop_expired(self, most: int) -> int:
        """Drops nothing: Hazelcast removes expired entries."""
        return 0

    def drop_destroyed(self) -> None:
        """Drops nothing: `take_dropped` gives what a destruction ended, and a delete of each is logged."""

    def stop_collecting(self) -> None:
        """Keep nothing from now on."""
        self._collecting = False
        self.clear()

    def take_dropped(self) -> list[Entry]:
        """The collected entries before the mark of a destroyed map, and the mark last. They are no longer kept."""
        self.map.tables.get(DROPPED, {}).pop(AWAY, None)  # it ended what others' logs do not bring any more
        mark = self.map.tables.get(DROPPED, {}).get(b"")
        if mark is None:
            return []
        entries = [e for table in self.map.tables.values() for e in table.values() if is_dropped(e, mark.timestamp)]
        for entry in (*entries, mark):
            del self.map.tables[entry.key_class][entry.key]
        return [*entries, mark]

    def take_unfinished(self) -> list[tuple[Entry, list[Entry]]]:
        """Intents that were collected, each with those of its changes that are still the latest of their keys; the intents
        are no longer kept."""
        intents = list(self.map.tables.pop(INTENT, {}).values())
        return [(intent, [change for change in changes_of(intent) if self._is_latest(change)]) for intent in intents]

    def _is_latest(self, change: Entry) -> bool:
        kept = self.map.tables.get(change.key_class, {}).get(change.key)
        return change.deleted if kept is None else kept.timestamp == change.timestamp

    def hand_over(self, at_once: int, most_bytes: int) -> Iterator[list[Entry]]:
        """The collected live entries, in lists of at most `at_once` and of about `most_bytes`. They are no longer kept."""
        now = self.guards.now()
        self._collecting = False
        batch: list[Entry] = []
        size = 0
        for table in self.map.tables.values():
            while table:
                _, entry = table.popitem()
                if entry.expires and entry.expires <= now:
                    continue
                batch.append(entry)
                size += len(entry.key) + len(entry.value)
                if len(batch) >= at_once or size >= most_bytes:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch
        self.clear()


def as_recovery_buffer(memory: BusinessMemory) -> RecoveryBuffer:
    """`memory` as a `RecoveryBuffer`, which that of every business of a node is. `TypeError` for any other memory."""
    if not isinstance(memory, RecoveryBuffer):
        raise TypeError(f"a node's engine makes {type(memory).__name__} for memory")
    return memory
