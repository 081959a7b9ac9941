"""Lost tails of a cluster: once adoption is complete, a member writes the end of each lost tail to the archive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ArchiveError, ClusterUnreachable
from kvwal.hlc import to_text
from kvwal.node.adapters.live_members import Membership
from kvwal.ports.logger import get_logger
from kvwal.ports.retries import poll_until, retry_awaiting
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal_archive.lost_tails import end_lost_tail, lost_tails
from kvwal_archive.objects import Objects

_POLL_SECONDS = 1.0
_RETRY_SECONDS = 10.0


class LostTailCloser:
    """Ends the lost tails that are on record without an end. `run` returns when there is none."""

    def __init__(
        self, engine: Engine, objects: Callable[[], Objects], membership: Membership, readers: Workers, *, adopts: bool
    ) -> None:
        """`adopts`: members adopt the entries of a killed member, and a tail ends after its adoption.

        Without it every tail ends at the first check.
        """
        self._engine = engine
        self._objects = objects
        self._membership = membership
        self._readers = readers
        self._adopts = adopts
        self._logger = get_logger(__name__).bind(node=engine.node)

    async def run(self) -> None:
        """Check once a second until every lost tail has an end.

        If the archive or the members do not answer, check again after 10 s.
        """
        look = partial(
            retry_awaiting, self._look, (ArchiveError, ClusterUnreachable), self._log_retry, pause=_RETRY_SECONDS
        )
        await poll_until(bool, look, pause=_POLL_SECONDS)

    async def _look(self) -> bool:
        return await self._readers.run(self._end_adopted)

    def _end_adopted(self) -> bool:
        """End the tails of the members that are adopted. Returns whether no tail is left without an end."""
        options, objects = self._engine.options, self._objects()
        tails = [tail for tail in lost_tails(objects, options.namespace, options.cluster) if tail.before is None]
        orphans = self._membership.orphans() if tails and self._adopts else {}
        unadopted = {orphan.name for orphan in orphans.values() if orphan.count}
        # Entries that were adopted have timestamps of their new owners, whose clocks may be ahead of this one.
        skew_ms = int(options.settings.max_skew_seconds * 1000)
        before = (options.clock.wall_ms() + skew_ms) << TIMESTAMP_SHIFT
        for tail in tails:
            if tail.place.node not in unadopted:
                end_lost_tail(objects, tail, before)
                self._logger.warning(
                    "a lost disk took changes along that were in no archive", lost=tail.place.node,
                    business=tail.place.business, after=to_text(tail.after), before=to_text(before),
                )  # fmt: skip
        return all(tail.place.node not in unadopted for tail in tails)

    def _log_retry(self, error: Exception) -> None:
        self._logger.warning("the ends of lost tails could not be put on record", error=str(error))
