"""Memory of a business's queues in Hazelcast: see `kvwal.cluster.queues.memory`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import jpype
import msgspec

from kvwal.cluster.queues.memory import Claims, Commit, KeptBlock
from kvwal.cluster.queues.requests import OWNER_CLASS, OWNER_KEY
from kvwal.cluster.queues.table import Claim
from kvwal.entry import Entry, encode_entries, make_decoder
from kvwal.errors import ClusterUnreachable
from kvwal.key_class import QUEUE
from kvwal.node.adapters.live_members import QUEUES
from kvwal.node.jvm import java
from kvwal.node.requests.own_transactions import check_versions, run_transaction, translated
from kvwal.structures.queue.positions import is_of_any_queue

T = TypeVar("T")

CLAIMS = "__kvwal.claims"
"""The map of the claims of takers, and of the members that decide. It is in the memory of the members only."""
_BETWEEN = "\0"
_decode = make_decoder(())


class HazelcastQueues:
    """Hazelcast as a `QueueMemory`."""

    def __init__(self, instance: Any, name: str, mark: str) -> None:
        """`name` is the map of the business, `mark` tells this owner from all others."""
        self.name = name
        self._instance = instance
        self._mark = mark
        self._reads = java("kvwal.queues.QueueReads")
        self._claims = instance.getMap(CLAIMS)

    def begin(self) -> bool:
        """See `QueueMemory.begin`. `ConfigError` if a member is of a version without queues."""
        check_versions(self._instance, self.name, QUEUES, "queues")
        return self._asked(lambda: self._claims.put(self.name, self._mark)) is not None

    def is_owner(self) -> bool:
        """See `QueueMemory.is_owner`."""
        return bool(self._asked(lambda: str(self._claims.get(self.name)) == self._mark))

    def record(self) -> Entry:
        """See `QueueMemory.record`."""
        found = self.entries([(OWNER_CLASS, OWNER_KEY)])
        return found[0] if found else Entry(OWNER_KEY, OWNER_CLASS, b"", "", True, 0)

    def keys(self) -> list[Claim]:
        """See `QueueMemory.keys`."""
        found = self._asked(partial(self._reads.keys, self._instance, self.name, QUEUE))
        identities = [(entry.key_class, entry.key) for entry in _decode(bytes(found))]
        return [claim for claim in identities if is_of_any_queue(claim[0])]

    def entries(self, claims: list[Claim]) -> list[Entry]:
        """See `QueueMemory.entries`."""
        block = encode_entries([Entry(key, key_class, b"", "", True, 0) for key_class, key in claims])
        return _decode(bytes(self._asked(partial(self._reads.entries, self._instance, self.name, block))))

    def commit(self, entries: list[Entry], guard: Entry) -> Commit:
        """See `QueueMemory.commit`."""
        return Commit(*run_transaction(self._instance, self.name, entries, [guard]))

    def claim(self, epoch: int, block: str, claims: Claims) -> bool:
        """See `QueueMemory.claim`."""
        self._asked(lambda: self._claims.set(self._key(epoch, block), msgspec.json.encode(claims).decode()))
        if self.is_owner():
            return True
        self.release(epoch, block)
        return False

    def release(self, epoch: int, block: str) -> None:
        """See `QueueMemory.release`."""
        self._asked(lambda: self._claims.delete(self._key(epoch, block)))

    def blocks(self) -> list[KeptBlock]:
        """See `QueueMemory.blocks`."""
        return sorted(self._asked(lambda: list(self._read_blocks())), key=lambda kept: kept.epoch, reverse=True)

    def _read_blocks(self) -> Iterator[KeptBlock]:
        for key in map(str, self._claims.keySet()):
            name, _, kept = key.partition(_BETWEEN)
            value = self._claims.get(key) if kept and name == self.name else None
            if value is not None:
                epoch, _, block = kept.partition(_BETWEEN)
                yield KeptBlock(int(epoch), block, msgspec.json.decode(str(value), type=Claims))

    def _key(self, epoch: int, block: str) -> str:
        return _BETWEEN.join((self.name, str(epoch), block))

    def _asked(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except jpype.JException as error:
            raise translated(self.name, error, ClusterUnreachable) from error
