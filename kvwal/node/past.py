"""Answers what clients ask of the past of a map: from what the logs of all living members held when they asked.

Each member brings the archive up to date first, so that one read of it tells all. Where there is no archive, this node's own log
is all there is. Who asks holds a thread of a member until there is an answer, so none may wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jpype

from archive import view
from archive.objects import Objects
from archive.registry import registered
from kvwal.business import OpenBusiness
from kvwal.cluster import questions
from kvwal.cluster.archiving import not_archived
from kvwal.cluster.maps import to_business
from kvwal.cluster.memory import is_of_map
from kvwal.cluster.questions import Question
from kvwal.cluster.restore import dropped_rows, marks_of
from kvwal.engine import Engine
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, Entry, encode_entries
from kvwal.errors import KvwalError
from kvwal.node.recover import Recovery
from kvwal.past import each_once, entries_of
from kvwal.ports.tasks import Workers

if TYPE_CHECKING:
    import pyarrow as pa


_ARCHIVING_SECONDS = 30.0


class Answering:
    """Used on the node's event loop."""

    def __init__(
        self,
        asked: Any,
        engine: Engine,
        recovery: Recovery,
        readers: Workers,
        takers: Workers,
        *,
        within: float = _ARCHIVING_SECONDS,
    ) -> None:
        """`asked` is java/Questions.java; on `takers`, which has a thread, it is waited for, and on `readers` logs and archive
        are read. A question for which the archive is not up to date `within` so many seconds is refused."""
        self._asked = asked
        self._engine = engine
        self._recovery = recovery
        self._readers = readers
        self._takers = takers
        self._within = within
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the questions are closed."""
        try:
            while (question := await self._takers.run(self._asked.take)) is not None:
                task = asyncio.get_running_loop().create_task(self._answer(question))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            for task in self._tasks:
                task.cancel()
            self._takers.close()

    async def _answer(self, asked: Any) -> None:
        try:
            asked.answer(encode_entries(await self._find(questions.decode(bytes(asked.text())))))
        except asyncio.CancelledError:
            asked.refuse("ClusterUnreachable: this node is leaving. Ask another one.")
            raise
        except (KvwalError, OSError, jpype.JException) as error:
            asked.refuse(f"{type(error).__name__}: {error}")
        finally:
            asked.refuse("KvwalError: this node has a bug, and its log says which.")  # unless it has its answer

    async def _find(self, question: Question) -> Sequence[Entry | DataEntry]:
        business = to_business(question.map)
        if self._engine.options.archive_url is None:
            own = self._engine.businesses.get(business)
            return [] if own is None else await self._readers.run(partial(_own, own, question))
        if self._recovery.alone:
            await self._archive_own()
        else:
            await self._recovery.all_archive(within=self._within)
        return await self._readers.run(partial(self._read, business, question))

    async def _archive_own(self) -> None:
        """An archive that does not answer keeps its job for minutes, and whoever cancels that waits for its end: nobody does."""
        work = asyncio.ensure_future(self._engine.archive())
        try:
            await asyncio.wait({work}, timeout=self._within)
            if work.done():
                return work.result()
        finally:
            work.cancel()
        raise not_archived([self._engine.node], self._within)

    def _read(self, business: str, question: Question) -> Sequence[Entry | DataEntry]:
        options = self._engine.options
        where = (options.namespace, options.cluster, business)
        objects = self._recovery.objects()
        if not registered(objects, *where):
            return []  # nobody ever wrote to it
        if question.key_class:
            return each_once(
                list(entries_of(view.history(objects, *where, key_class=question.key_class, key=question.key)))
            )
        skew = int(options.settings.max_skew_seconds * 1000) << TIMESTAMP_SHIFT
        return list(entries_of(_as_of(objects, where, question.timestamp, skew)))


def _own(business: OpenBusiness, question: Question) -> Sequence[Entry | DataEntry]:
    if question.key_class:
        return business.history(question.key_class, question.key)
    return [entry for entry in business.as_of(question.timestamp).all_ordered() if is_of_map(entry.key_class)]


def _as_of(objects: Objects, where: tuple[str, str, str], timestamp: int, skew: int) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = view.latest(objects, *where, at=timestamp)
    table = table.filter(pc.invert(table.column("deleted")))
    classes = table.column("key_class").combine_chunks()
    found = [name for name in pc.unique(classes).to_pylist() if is_of_map(name)]
    table = table.filter(pc.is_in(classes, value_set=pa.array(found, pa.string())))
    if marks := marks_of(objects, where, at=timestamp):
        gone = [dropped_rows(batch, marks, skew) for batch in table.to_batches()]
        table = table.filter(pc.invert(pa.chunked_array(gone, pa.bool_())))
    return table
