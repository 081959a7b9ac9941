"""One member asks, and all bring the archive up to date: what their logs held when it asked is there afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

import structlog

from kvwal.cluster.gathering import Status
from kvwal.errors import ArchiveError, KvwalError


class Archiving:
    """What one member asks of all, and what it did for those that asked. Used on the node's event loop."""

    def __init__(self, name: str, archive: Callable[[], Awaitable[object]]) -> None:
        """`archive` returns when all that this member's logs hold is in the archive."""
        self.asks = 0
        self.answered: dict[str, int] = {}
        self._name = name
        self._archive = archive
        self._task: asyncio.Task[None] | None = None
        self._logger = structlog.get_logger("kvwal").bind(node=name)

    def ask(self, now_ms: int, statuses: Collection[Status]) -> int:
        """Ask all, with a number that none of them has answered yet: it is to be told to them."""
        answered = max((status.answered.get(self._name, 0) for status in statuses), default=0)
        self.asks = max(now_ms, answered + 1, self.asks + 1)
        return self.asks

    def lacking(self, number: int, statuses: Collection[Status], living: Iterable[str]) -> list[str]:
        """Who of the `living` has not done so since `ask` gave this number: those too that have told nothing yet; sorted."""
        done = {status.name for status in statuses if status.answered.get(self._name, 0) >= number}
        return sorted(set(living) - done)

    def answer(self, statuses: Collection[Status]) -> None:
        """Do what is asked and was not done yet."""
        asked = {s.name: s.asks for s in statuses if s.asks > self.answered.get(s.name, 0)}
        if asked and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._do(asked))

    async def _do(self, asked: dict[str, int]) -> None:
        try:
            await self._archive()
        except KvwalError as error:
            self._logger.warning("the archive could not be brought up to date for another member", error=str(error))
        else:
            self.answered = self.answered | asked


def not_archived(lacking: list[str], seconds: float) -> ArchiveError:
    """These members were asked to archive what their logs hold, and have not done so in that time."""
    return ArchiveError(
        f"{', '.join(lacking)} did not bring the archive up to date within {seconds:g} s, and without that the past is not told.",
        hint="See what /readyz and the log say there: whether it reaches the archive, or still joins. Then ask again.",
    )
