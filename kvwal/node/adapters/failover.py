"""Failover re-append ("adoption"): the entries of a killed member are written to the logs of the members that own its keys now.

The entries that a killed member had not archived are in the others' memory and on its own disk. Once its partitions are adopted,
its disk is not needed any more, and its last entries cannot come back over a newer value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kvwal.cluster.archive_load import columns_of
from kvwal.cluster.map_names import to_map
from kvwal.cluster.quorum import Quorum
from kvwal.cluster.transactions import INTENTS
from kvwal.history.reads.map_rows import dropped_rows, marks_of
from kvwal.key_class import INTENT, is_data
from kvwal.node.adapters.live_members import Membership, Orphan
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers
from kvwal.structures.destroyed import Marks
from kvwal_archive.objects import Objects
from kvwal_archive.restore import businesses, restore_batches

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Adoption:
    """The adoption of one member. Used on the node's event loop. `partitions` is how many are still to be adopted by any member,
    `lost` the names of the killed members."""

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
        hexadecimal digits; after `all_archive` the archive has everything that the logs of the living members hold; `where` is
        (namespace, cluster); `skew` is the greatest difference between the members' clocks, in units of timestamps.
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
        """Adopt the partitions of killed members that this member owns now, unless partitions are moving. To be called again and
        again: partitions may come to this member later. Raises the error of the first adoption that failed.

        Only a majority of the expected members adopts. A half that is cut off does not: the other members may live.
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
        """Write the deletes that only the lost log has. A log of a living member may hold a key that the lost log deleted, or an
        intent that would write a deleted key again. Entries before the mark of a destroyed map need no delete."""
        objects = self._objects()
        count = 0
        for name in businesses(objects, *self._where):
            marks = marks_of(objects, (*self._where, name))
            for batch in restore_batches(objects, *self._where, name).batches:
                for key_class, keys, offsets in self._keys(batch, marks):
                    if key_class == INTENT:
                        count += int(work.deletes(INTENTS, "str", keys, offsets))
                    elif is_data(key_class):
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
