"""After a member was killed: what it alone had on disk is written to the logs of those that serve its keys now.

What a killed member had not archived is in the others' memory and on its own disk. From when its partitions are adopted that disk
is not needed any more, and what it logged last cannot come back over anything that was served since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from archive.objects import Objects
from archive.restore import businesses, restore_batches
from kvwal.cluster.archive_load import Marks, columns_of, dropped_rows, marks_of
from kvwal.cluster.map_names import to_map
from kvwal.cluster.quorum import Quorum
from kvwal.cluster.recovery_buffer import is_of_map
from kvwal.cluster.transactions import INTENT, INTENTS
from kvwal.node.adapters.membership import Membership, Orphan
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Adoption:
    """Used on the node's event loop. `partitions` is how many are still to be adopted by any member, `lost` of whom."""

    def __init__(
        self,
        membership: Membership,
        quorum: Callable[[], Quorum | None],
        make: Callable[[str], Any],
        all_archive: Callable[[], Awaitable[None]],
        objects: Callable[[], Objects],
        where: tuple[str, str],
        skew: int,
        clock: Clock,
        workers: Workers,
    ) -> None:
        """`quorum` has the members that did not leave in order; `make` makes FailoverAppend.java of partitions, as
        hexadecimal digits; after `all_archive` the archive has what the logs of the living hold; `where` is namespace, cluster;
        `skew` is how far apart the members' clocks may have been, as timestamps are.
        """
        self.partitions = 0
        self.lost = ""
        self._membership = membership
        self._quorum = quorum
        self._make = make
        self._all_archive = all_archive
        self._objects = objects
        self._where = where
        self._skew = skew
        self._clock = clock
        self._workers = workers
        self._logger = get_logger(__name__).bind(node=membership.own.name)

    async def step(self) -> None:
        """Adopt what this member owns now of all that were killed, if nothing moves. To be called again and again: what it
        could not do now, or what comes to it later, it does then. Raises what it could not do.

        Only where more than half of the expected members are together: a half that is cut off adopts nobody, who may live.
        """
        expected = self._quorum()
        if expected is None or not expected.has_majority(self._membership.names()):
            return
        await self._run(partial(self._membership.note_orphans, expected.names))
        left = {m: orphan for m, orphan in (await self._run(self._membership.orphans)).items() if orphan.count}
        self.partitions = sum(orphan.count for orphan in left.values())
        self.lost = ", ".join(sorted({orphan.name for orphan in left.values()}))
        for member, orphan in left.items():
            await self._adopt(member, orphan)

    async def _adopt(self, member: str, orphan: Orphan) -> None:
        work = await self._run(partial(self._make, orphan.partitions))
        own = int(str(work.partitions()), 16).bit_count()
        if not own or not work.isSettled():
            return
        self._logger.info("adopting", lost=orphan.name, partitions=own)
        puts = await self._run(work.puts)
        await self._all_archive()
        deletes = await self._run(partial(self._deletes, work))
        left = await self._run(partial(self._membership.adopted, member, str(work.partitions())))
        self._logger.info("adopted", lost=orphan.name, entries=int(puts), deletes=deletes, partitions_left=left)

    def _deletes(self, work: Any) -> int:
        """A log of the living may hold a key that the lost one's log deleted; or an intent, which would make again what a client
        deleted since. What the mark of a destroyed map ended needs none."""
        objects = self._objects()
        count = 0
        for name in businesses(objects, *self._where):
            marks = marks_of(objects, (*self._where, name))
            for batch in restore_batches(objects, *self._where, name).batches:
                for key_class, keys, offsets in self._keys(batch, marks):
                    if key_class == INTENT:
                        count += int(work.deletes(INTENTS, "str", keys, offsets))
                    elif is_of_map(key_class):
                        count += int(work.deletes(to_map(name), key_class, keys, offsets))
        return count

    def _keys(self, batch: pa.RecordBatch, marks: Marks) -> Iterator[tuple[str, bytes, bytes]]:
        import pyarrow.compute as pc

        ends = batch.column("expires")
        lives = pc.invert(pc.and_(pc.greater(ends, 0), pc.less_equal(ends, self._clock.wall_ms())))
        lives = pc.and_(lives, pc.invert(batch.column("deleted")))
        rows = batch.filter(pc.and_(lives, pc.invert(dropped_rows(batch, marks, self._skew))))
        for key_class, _, keys, offsets, *_ in columns_of(rows):
            yield key_class, keys, offsets

    async def _run(self, call: Callable[[], T]) -> T:
        return await self._workers.run(call)
