"""Log bridge: a batch of changes from Hazelcast's threads becomes one group of a log, and all its callers get one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from kvwal.cluster.map_names import to_business
from kvwal.cluster.recovery_buffer import as_recovery_buffer
from kvwal.entry import Decode, Entry, make_decoder
from kvwal.errors import KvwalError
from kvwal.key_class import DROPPED
from kvwal.key_codecs import ORDERED
from kvwal.log.files.format import FORMAT, format_for
from kvwal.log.submission import Submission, size_of
from kvwal.node.adapters.destroyed_maps import drop, may_retire_log
from kvwal.ports.boundary import start_task, when_done
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import ThreadWorkers
from kvwal.ports.wakeup import Wakeup
from kvwal.store.engine import Engine
from kvwal.store.open_business import OpenBusiness

CLASSES = ("str", "json", "int", "int64", "float", "bool", "bytes", "hz", "none", *(codec.name for codec in ORDERED))
"""The key and value classes of the Java side (ValueCodec.java), and kvwal's own that it passes on."""
_SIZE_BITS = 32
_NOTHING, _END = -1, -2
"""The values of BatchQueues.java that are no batch."""


class _BatchReply:
    """The answer to a batch, with the methods of a future. It is sent at once: a future would wait for the next loop tick."""

    def __init__(self, tell: Callable[[BaseException | None, int], None], entries: list[Entry]) -> None:
        self._tell = tell
        self._entries = entries
        self._done = False

    def cancelled(self) -> bool:
        """Never: Hazelcast's threads wait for the answer."""
        return False

    def done(self) -> bool:
        """See `Completion.done`."""
        return self._done

    def set_result(self, result: Any, /) -> None:
        """See `Completion.set_result`. The batch has its timestamp."""
        self._done = True
        self._tell(None, self._entries[0].timestamp)

    def set_exception(self, error: BaseException, /) -> None:
        """See `Completion.set_exception`."""
        self._done = True
        self._tell(error, 0)


class LogBridge:
    """The bridge of one node, from Hazelcast to its logs. Used on the engine's event loop."""

    def __init__(self, queues: Any, engine: Engine, alone: Callable[[], bool]) -> None:
        """`queues` is BatchQueues.java; `alone` says whether no other node ever had a log of a map."""
        self._alone = alone
        self._queues = queues
        self._engine = engine
        self._decode: Decode = make_decoder(CLASSES)
        self._logger = get_logger(__name__)
        self._wakeup = Wakeup()
        self._droppers = ThreadWorkers("kvwal-drop", 1)
        self._businesses: WeakValueDictionary[int, OpenBusiness] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Take batches and have them written, until the queues are closed and empty."""
        handed = memoryview(self._queues.handed())
        with self._wakeup:
            self._queues.wakeBy(self._wakeup.path)
            while (taken := self._queues.take()) != _END:
                if taken == _NOTHING:
                    await self._wakeup.wait()
                    continue
                number, size = taken >> _SIZE_BITS, taken & (1 << _SIZE_BITS) - 1
                self._serve(number, self._decode(bytes(handed[:size])))
        for task in self._tasks:
            task.cancel()  # only deletes of destroyed maps are left, and the next start goes on with them
        self._droppers.close()

    def _serve(self, number: int, entries: list[Entry]) -> None:
        answer = partial(self._answer, number)
        if any(entry.key_class == DROPPED for entry in entries):
            future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            when_done(
                future, lambda done: answer(error := done.exception(), 0 if error else done.result()), self._not_told
            )
            mark = Submission(entries, size_of(entries), future)
            self._keep(self._submit_mark(number, mark, future), mark)
            return
        # The writer looks for entries of queues in what it decides only: they give the log a format of its own.
        of_queues = format_for({entry.key_class for entry in entries}) != FORMAT
        decide = (lambda group: entries) if of_queues else None
        submission = Submission(entries, size_of(entries), _BatchReply(answer, entries), decide)
        business = self._businesses.get(number)
        try:
            if business is not None and not business.closed and business.offer(submission):
                business.log.ring.end_tick()  # a batch is all there is of this log: nothing in this round is to join it
                return
        except KvwalError as error:
            submission.fail(error)
            return
        self._keep(self._submit(number, submission), submission)

    def _keep(self, work: Coroutine[Any, Any, None], submission: Submission) -> None:
        """Run `work`. An error that ends it fails the submission, for which one of Hazelcast's threads waits."""
        task = start_task(work, submission.fail)
        self._tasks.add(task)
        when_done(task, self._tasks.discard, self._not_told)

    def _not_told(self, error: BaseException) -> None:
        self._logger.error("Hazelcast could not be told the end of a change", exc_info=error)

    async def _submit(self, number: int, submission: Submission) -> None:
        """Submit a batch whose log is not open yet, or whose ring is full."""
        try:
            business = self._businesses.get(number)
            if business is None or business.closed:
                business = self._businesses[number] = await self._open(str(self._queues.business(number)))
            await business.submit_soon(submission)
        except (KvwalError, OSError) as error:
            submission.fail(error)

    async def _submit_mark(self, number: int, submission: Submission, future: asyncio.Future[int]) -> None:
        """Submit the mark of a destroyed map. The caller waits for the mark; the entries of the map are deleted afterwards."""
        name = str(self._queues.business(number))
        try:
            if len(submission.entries) == 1 and not self._engine.has_log(to_business(name)):
                future.set_result(0)  # nobody ever wrote to it
                return
            business = await self._open(name)
            business.maintenance.held += (
                1  # not undone after an error: the entries to delete stay in the log until the next start
            )
            with as_recovery_buffer(business.memory).watching() as written:
                await business.submit_soon(submission)
                timestamp = await future
                # A delete now could come after a put in another member's log: the mark stays, in the archive when the log has
                # gone, and a restore obeys it.
                count = 0
                if alone := self._alone():
                    count = await drop(self._engine, business, timestamp, written, self._droppers)
            business.maintenance.held -= 1
            business.maintenance.retires = may_retire_log(self._engine, business, alone=alone)
            if not alone:
                return
            self._logger.info("dropped", map=name, entries=count)
        except (KvwalError, OSError) as error:
            submission.fail(error)
            self._logger.error("a destroyed map is in the log until the next start", map=name, error=str(error))

    async def _open(self, name: str) -> OpenBusiness:
        business = await self._engine.business(to_business(name))
        as_recovery_buffer(business.memory).stop_collecting()
        return business

    def _answer(self, number: int, error: BaseException | None, timestamp: int) -> None:
        if self._queues.complete(number, None if error is None else f"{type(error).__name__}: {error}", timestamp):
            self._wakeup.set()
