"""Blocks of a client: what a transaction takes from queues of a cluster, and puts into them, until it is committed.

A block that has taken items tells the cluster regularly that it goes on. Otherwise other takers get the items after the
visibility timeout, and the block cannot be committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from hazelcast.errors import HazelcastError
from hazelcast.future import Future as HazelcastFuture

from kvwal.client.queues.calls import QueueCalls
from kvwal.cluster.queues.requests import (
    VISIBILITY_SECONDS,
    Commit,
    GiveBack,
    Hold,
    Item,
    PutItem,
    claims_lost,
    decode_answer,
)
from kvwal.entry import Entry, encode_entries
from kvwal.errors import ConfigError, KvwalError
from kvwal.ports.boundary import logged, start_thread
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import Lock, Signal
from kvwal.structures.queue.positions import ITEM_KEY_BYTES, item_class
from kvwal.structures.transaction import is_of_the_items, note_not_counted

_RENEW_SECONDS = VISIBILITY_SECONDS / 6
_ROOM_KEY = bytes(ITEM_KEY_BYTES)
_stopped = logged("the blocks of this client are not renewed any more because of a bug")


class Renewals:
    """Tells the cluster that blocks go on, while there are any, on a thread of its own."""

    def __init__(self, seconds: float = _RENEW_SECONDS) -> None:
        self._seconds = seconds
        self._lock = Lock()
        self._blocks: dict[str, QueueBlock] = {}
        self._runs = False
        self._ended = Signal()

    def begin(self, block: QueueBlock) -> None:
        """Renew a block from now on."""
        with self._lock:
            self._blocks[block.id] = block
            begins, self._runs = not self._runs, True
        if begins:
            start_thread("kvwal-renewals", self._run, _stopped)

    def end(self, block: QueueBlock) -> None:
        """A block has ended."""
        with self._lock:
            self._blocks.pop(block.id, None)

    def close(self) -> None:
        """Renew nothing any more."""
        self._ended.set()

    def _run(self) -> None:
        while True:
            ended = self._ended.wait(self._seconds)
            with self._lock:
                blocks = list(self._blocks.values())
                if ended or not blocks:
                    self._runs = False
                    return
            asked: list[tuple[QueueBlock, HazelcastFuture[Any]]] = []
            for block in blocks:
                with suppress(KvwalError, HazelcastError, OSError):
                    if (future := block.begin_renewal()) is not None:
                        asked.append((block, future))
            for block, future in asked:
                with suppress(KvwalError, HazelcastError, OSError):  # it is asked again before the timeout has passed
                    block.renewed(decode_answer(bytes(future.result())))


class QueueBlock:
    """The takes and puts of one block, on one business. Used by one thread."""

    def __init__(self, calls: QueueCalls, renewals: Renewals, visibility: float = VISIBILITY_SECONDS) -> None:
        self.id = f"{SYSTEM.random_bits(128):032x}"
        self.puts: list[PutItem] = []
        self._delays: dict[int, int] = {}
        self._calls = calls
        self._renewals = renewals
        self._visibility = visibility
        self._taken: list[tuple[str, bytes]] = []
        self._takes = 0
        self._is_lost = False

    def put(self, items: list[PutItem], delay_ms: int = 0) -> None:
        """Put items at the end of the block; they are handed out after the delay at the earliest."""
        if delay_ms:
            self._delays |= dict.fromkeys(range(len(self.puts), len(self.puts) + len(items)), delay_ms)
        self.puts += items

    def hold(self, structure: str, most: int, *, decodes: bool) -> list[Item]:
        """Take up to `most` items: they are in flight until the block ends."""
        self._check_not_lost()
        self._takes += 1
        known = self._calls.codecs.names() if decodes else None
        if self._takes == 1:
            self._renewals.begin(self)
        request = Hold(self._calls.map, structure, most, known, self.id, self._takes, self._visibility)
        try:
            items = self._calls.items(request, writes=False)
        except BaseException:
            self._give_back(self._takes)
            raise
        key_class = item_class(structure)
        self._taken += [(key_class, item.key) for item in items]
        return items

    def undo(self, items: list[Item]) -> None:
        """Give the items of the last take back."""
        keys = {item.key for item in items}
        self._taken = [claim for claim in self._taken if claim[1] not in keys]
        self._give_back(self._takes)

    def commit(self, entries: list[Entry], *, counts: bool = True, begun_ms: int = 0) -> int:
        """Commit the block, with entries of maps and contents, and return the timestamp. After most errors the items are at their
        places.

        `QueueFull` if there is no room for its puts now. Without `counts` a failure is no delivery of the items. `begun_ms`: see
        `kvwal.client.contents.calls.ContentCalls.change`.
        """
        try:
            self._check_not_lost()
            request = Commit(
                self._calls.map, self.id, self._taken, self.puts, encode_entries(entries), SYSTEM.wall_ms(),
                self._delays, begun_ms,
            )  # fmt: skip
            timestamp: int = self._calls.ask(request, writes=True)
        except BaseException as error:
            self.give_back(error if counts else None)
            raise
        self._renewals.end(self)
        return timestamp

    @property
    def has_changes(self) -> bool:
        """Whether the block has taken or put anything."""
        return bool(self._taken or self.puts)

    def give_back(self, error: BaseException | None = None) -> None:
        """End the block without a commit. If the cluster does not answer, the items come back after the visibility timeout.

        `error` is what ended the block. If it may be one of the items, it is a delivery of them; a note on it says so if that
        could not be counted.
        """
        self._renewals.end(self)
        if self._takes and (failed := self._give_back(None, counts=is_of_the_items(error))):
            note_not_counted(error, failed)

    def begin_renewal(self) -> HazelcastFuture[Any] | None:
        """See `QueueCalls.begin_renewal`. None as long as the block has taken nothing."""
        return self._calls.begin_renewal(self.id) if self._taken else None

    def renewed(self, holds: bool) -> None:
        """The cluster said whether the items are still the block's."""
        self._is_lost = self._is_lost or not holds

    def _check_not_lost(self) -> None:
        if self._is_lost:
            raise claims_lost(self._calls.map)

    def _give_back(self, number: int | None, *, counts: bool = False) -> str | None:
        """End the block, or one take of it. Returns why a delivery of the items could not be counted."""
        failed: str | None = None
        with suppress(KvwalError):
            try:
                failed = self._calls.ask(GiveBack(self._calls.map, self.id, number, counts), writes=False, again=False)
            except ConfigError:  # a member of an earlier version counts nothing
                self._calls.ask(GiveBack(self._calls.map, self.id, number), writes=False, again=False)
        return failed


def room_of(items: Iterable[PutItem]) -> list[Entry]:
    """Entries of at least the size of these items."""
    return [Entry(_ROOM_KEY, item_class(item.structure), item.value, item.value_class, False, 0) for item in items]
