"""The sweep of expired keys of one log, and the time marks that the log gets in a quiet time."""

from __future__ import annotations

import asyncio

from kvwal.entry import TIMESTAMP_SHIFT, Entry, time_mark
from kvwal.errors import KvwalError
from kvwal.log.log import Log
from kvwal.log.submission import Submission, size_of
from kvwal.ports.boundary import logged, when_done
from kvwal.structures.memory import BusinessMemory
from kvwal.structures.provenance.said import expiry_notes
from kvwal.structures.provenance.state import swept_entry

_SWEEP_AT_ONCE = 1000

_not_marked = logged("the sweep of expired keys could not note that its time mark was written, which is a bug")


class ExpirySweep:
    """Frees the memory of expired entries, and appends time marks. Used on the store's event loop."""

    def __init__(self, log: Log, memory: BusinessMemory) -> None:
        self._log = log
        self._memory = memory
        self._expired_ms = 0
        self._is_marking = False

    async def run(self) -> None:
        """Free the memory of expired entries, and make the log's last timestamp at least as late as their expiry.

        The log gets no delete: a delete would override a put of another node (docs/decisions/0022). A log whose last timestamp
        is older gets one time mark. So a clock that is set back while the store is closed revives no expired entry.
        """
        while last_ms := self._memory.drop_expired(_SWEEP_AT_ONCE):
            self._expired_ms = max(self._expired_ms, last_ms)
            await asyncio.sleep(0)
        if expired := self._memory.take_expired():
            await self._tell(expired)
        if self._log.writer.timestamp >> TIMESTAMP_SHIFT < self._expired_ms:
            self._log.hybrid.advance(self._expired_ms << TIMESTAMP_SHIFT)
            await self.mark()

    async def _tell(self, expired: list[Entry]) -> None:
        """Log the events of entries that expired. The last transaction says up to when all have been told of."""
        parts = expiry_notes(expired)
        parts[-1].append(swept_entry(max(entry.expires for entry in expired)))
        for notes in parts:
            await self._submit(notes)

    async def _submit(self, entries: list[Entry]) -> None:
        """Submit a transaction whose outcome nobody waits for."""
        if self._log.writer.failed is not None:
            return
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        when_done(future, _seen, _not_marked)
        try:
            await self._log.ring.put_soon(Submission(entries, size_of(entries), future))
        except KvwalError:
            future.cancel()
            raise

    async def mark(self) -> None:
        """Append a time mark, unless one is on its way or the log has failed."""
        if self._is_marking or self._log.writer.failed is not None:
            return
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        when_done(future, self._marked, _not_marked)
        mark = [time_mark()]
        self._is_marking = True
        try:
            await self._log.ring.put_soon(Submission(mark, size_of(mark), future))
        except KvwalError:
            future.cancel()
            raise

    def _marked(self, done: asyncio.Future[int]) -> None:
        self._is_marking = False
        if not done.cancelled():
            done.exception()


def _seen(done: asyncio.Future[int]) -> None:
    """Look at an error, of which a failed log tells its other callers, too."""
    if not done.cancelled():
        done.exception()
