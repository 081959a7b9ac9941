"""Archive requests: one member asks, and all members archive everything that their logs hold at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

from kvwal.cluster.bootstrap import Status
from kvwal.errors import ArchiveError, ConfigError, KvwalError
from kvwal.ports.boundary import contain_awaiting, start_task
from kvwal.ports.logger import get_logger
from kvwal.store.engine import Engine
from kvwal_archive.objects import Objects, open_objects


class ArchiveRequests:
    """The archive requests of one member, and its answers to those of others. Used on the node's event loop."""

    def __init__(self, name: str, archive: Callable[[], Awaitable[object]]) -> None:
        """`archive` returns when the archive has everything that this member's logs hold."""
        self.asks = 0
        self.answered: dict[str, int] = {}
        self._name = name
        self._archive = archive
        self._task: asyncio.Task[None] | None = None
        self._logger = get_logger(__name__).bind(node=name)

    def ask(self, now_ms: int, statuses: Collection[Status]) -> int:
        """Ask all members, by a number that none of them has answered yet. The next published status has it."""
        answered = max((status.answered.get(self._name, 0) for status in statuses), default=0)
        self.asks = max(now_ms, answered + 1, self.asks + 1)
        return self.asks

    def lacking(self, number: int, statuses: Collection[Status], living: Iterable[str]) -> list[str]:
        """The `living` members that have not archived since `ask` returned `number`, sorted. A member without a status is one."""
        done = {status.name for status in statuses if status.answered.get(self._name, 0) >= number}
        return sorted(set(living) - done)

    @property
    def is_busy(self) -> bool:
        """Whether this member archives for another one now."""
        return self._task is not None and not self._task.done()

    def answer(self, statuses: Collection[Status]) -> None:
        """Archive for the members that asked and have no answer yet."""
        asked = {s.name: s.asks for s in statuses if s.asks > self.answered.get(s.name, 0)}
        if asked and (self._task is None or self._task.done()):
            self._task = start_task(self._do(asked), self._failed)

    async def _do(self, asked: dict[str, int]) -> None:
        async def archive() -> None:
            await self._archive()
            self.answered = self.answered | asked

        await contain_awaiting(archive, self._failed)

    def _failed(self, error: BaseException) -> None:
        trace = None if isinstance(error, KvwalError) else error
        self._logger.warning(
            "the archive could not be brought up to date for another member", error=str(error), exc_info=trace
        )


def cluster_archive(engine: Engine) -> Objects:
    """The archive of the cluster. `ConfigError` if there is none."""
    url = engine.options.archive_url
    if url is None:
        raise ConfigError(
            "this node was a member of a cluster of several, and its own logs are not all there is.",
            hint="Name the cluster's archive with --archive.",
        )
    return open_objects(url, engine.options.storage_options)


def not_archived(lacking: list[str], seconds: float) -> ArchiveError:
    """The error for members that were asked to archive, and have not done so in that time."""
    return ArchiveError(
        f"{', '.join(lacking)} did not bring the archive up to date within {seconds:g} s.",
        hint="See what /readyz and the log say there: whether it reaches the archive, or still joins. Then ask again.",
    )


def tails_not_answered(lacking: list[str], seconds: float) -> ArchiveError:
    """The error for members that were asked for their unarchived entries, and have not answered in that time."""
    return ArchiveError(
        f"{', '.join(lacking)} did not say within {seconds:g} s what its log holds, and without that the past is not told.",
        hint="See what /readyz and the log say there: whether it reaches the archive, or still joins. Then ask again.",
    )
