"""Start-up of a member: its memory becomes whole, from its own logs, from the archive, or from members that have it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jpype

from kvwal.cluster.bootstrap import (
    FilledMemory,
    Status,
    archive_is_unreachable,
    killed_without,
    missing,
    unknown_names,
    unknown_to,
)
from kvwal.cluster.membership import LocalMembership
from kvwal.errors import ArchiveError, ClusterUnreachable, ConfigError, Kind, KvwalError
from kvwal.node.adapters.archive_requests import cluster_archive
from kvwal.node.adapters.live_members import Membership
from kvwal.node.adapters.memory_fill import MemoryFill, load_progress
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.adapters.status_exchange import StatusExchange
from kvwal.node.config import NodeOptions
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.node.local_logs import (
    check_own,
    find_lost_log,
    has_new_root,
    load_own,
    note_lost_tails,
    open_logs,
    take_over_logs,
)
from kvwal.node.member import check_whole
from kvwal.ports.logger import get_logger
from kvwal.ports.retries import poll_until, retry_awaiting
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal_archive.faults import AccessRefused, NotTaken
from kvwal_archive.objects import Objects
from kvwal_archive.registry import registered

T = TypeVar("T")

_POLL_SECONDS = 0.1
_AGAIN_SECONDS = 2.0


def _ends_start(error: Exception) -> bool:
    """Whether the start ends by this error. Other errors may pass while the member waits.

    Refused credentials end every start, at each step, so that a member never waits or serves with them. The kind of the error
    says whether a supervisor starts the member again.
    """
    return isinstance(error, AccessRefused) or (isinstance(error, KvwalError) and error.kind is not Kind.RETRY)


class StartUpResult(NamedTuple):
    """The result of a start-up."""

    entries: int
    """Entries that this member loaded itself."""
    newest: int
    """The greatest timestamp that any member loaded."""
    was_away: bool
    """Memory was filled already when this member joined, so its last writes may exist only in its own log."""


class StartUp:
    """The start-up of one member: it bootstraps its memory. Used on the node's event loop."""

    def __init__(
        self,
        options: NodeOptions,
        engine: Engine,
        membership: Membership,
        quorum_membership: QuorumMembership,
        record: LocalMembership,
        statuses: StatusExchange,
        fill: MemoryFill,
        make_loader: Callable[[], Any],
        gate: Any,
        lifecycle: Lifecycle,
        workers: Workers,
        archived_of: Callable[[str], int],
    ) -> None:
        """`make_loader` makes a MemoryLoader.java; `gate` is ReadyGate.java; `archived_of`: see `ClockBoundsExchange`."""
        self._archived_of = archived_of
        self._options = options
        self._engine = engine
        self._membership = membership
        self._quorum_membership = quorum_membership
        self._record = record
        self._statuses = statuses
        self._fill = fill
        self._make_loader = make_loader
        self._gate = gate
        self._lifecycle = lifecycle
        self._workers = workers
        self._archive_error = ""
        self._archive_due = 0.0
        self._loaded = 0
        self._logger = get_logger(__name__).bind(node=options.node)

    async def run(self) -> StartUpResult:
        """Returns when memory is whole and every member has this one on its record.

        `NotRecovered` if memory loses a part meanwhile; `ConfigError` if --without names something that never was a member.
        """
        self._lifecycle.to(Phase.WAITING)
        await self._patiently(self._check_without)
        recovered = await self._patiently(self._recovered)
        if not self._record.alone and not self._statuses.archived:
            await self._patiently(self._take_over_lost_logs)
        if not self._record.alone and self._membership.own.member not in recovered.living:
            await self._patiently(self._note_left_out)
        was_away = await self._settle(recovered)
        return StartUpResult(self._loaded, recovered.newest, was_away)

    async def _check_without(self) -> None:
        """`ConfigError` if --without has a typing error: the node would wait for the member that is meant."""
        known = [self._statuses.own(), *await self._statuses.all()]
        unknown = unknown_names(self._options.without, known)
        context = self._engine.options
        if unknown and context.archive_url is not None:
            objects = await self._run(partial(cluster_archive, self._engine))
            places = await self._run(lambda: registered(objects, context.namespace, context.cluster))
            unknown = unknown_names(unknown, known, {place.node for place in places})
        if unknown:
            raise ConfigError(
                f"--without {', '.join(unknown)}: no member was ever called that, or had that address.",
                hint=f"The members on record are {', '.join(f'{name} ({at})' for name, at in self._record.members.items())}.",
            )

    async def _recovered(self) -> FilledMemory:
        """Repeat `_advance` until this or another member has filled memory. Returns the message published about that."""
        while (recovered := await self._run(self._membership.recovered)) is None:
            self._loaded = 0
            self._loaded = await self._advance()
            await asyncio.sleep(0 if self._loaded else _POLL_SECONDS)
        return recovered

    async def _advance(self) -> int:
        """Archive this member's tails, then wait for the members, or fill memory. Returns how many entries this member loaded."""
        if self._record.alone:
            return await self._load_alone()
        await self._statuses.publish()
        if not self._statuses.archived:
            await self._try_to_archive()
        await self._statuses.publish()
        living = await self._run(self._membership.living)
        statuses = await self._statuses.all()
        names = [peer.name for peer in living]
        leads = living[0].name == self._options.node
        if lacking := missing(statuses, names):
            if leads and archive_is_unreachable(statuses, names):
                return await self._fill.from_disks(living, statuses, self._archive_error)
            waiting_for = [*lacking, *filter(None, [self._archive_error])]
            self._show("waiting for members", Phase.WAITING, waiting_for=waiting_for)
        elif leads:
            return await self._fill.from_archive(living, statuses)
        else:
            self._follow(statuses)
        return 0

    async def _load_alone(self) -> int:
        """Load this member's own logs: no other node ever had a log of this cluster."""
        await self._check_disk()
        self._lifecycle.to(Phase.LOADING)
        loaded = await load_own(self._engine, self._make_loader(), self._workers)
        await self._run(partial(self._quorum_membership.begin, [self._options.node]))
        recovered = FilledMemory(by=self._options.node, living=[self._membership.own.member])
        await self._run(partial(self._membership.tell_recovered, recovered))
        return loaded

    async def _take_over_lost_logs(self) -> None:
        """If this member's disk was lost while others served, its logs go on after what the archive has of them.

        The others have every entry in memory, and adopt what the archive does not have.
        """
        if not has_new_root(self._engine, self._record):
            await self._check_disk()
            return
        objects = await self._run(partial(cluster_archive, self._engine))
        if await self._run(partial(find_lost_log, objects, self._engine)) is None:
            return
        self._show("taking over the logs of the lost disk", Phase.WAITING, taking_over=self._engine.options.archive_url)
        archived = self._archived_of(self._engine.node)
        entries = await self._run(partial(take_over_logs, objects, self._engine, archived))
        await open_logs(self._engine)
        self._logger.info("took over the logs of the lost disk", entries=sum(entries.values()), businesses=len(entries))

    async def _note_left_out(self) -> None:
        """Put on record that the disks of the killed members are lost that --without leaves out, while others serve."""
        if not self._options.without or self._engine.options.archive_url is None:
            return
        objects = await self._run(partial(cluster_archive, self._engine))
        context = self._engine.options
        for node in killed_without([self._statuses.own(), *await self._statuses.all()]):
            archived = self._archived_of(node)
            await self._run(
                partial(note_lost_tails, objects, context.namespace, context.cluster, node, archived=archived)
            )

    async def _check_disk(self) -> None:
        """`ConfigError` if the archive has a log of this member that is not on its disk. The disk is not new, so it may go
        on if the archive cannot be read."""
        if self._engine.options.archive_url is None:
            return
        objects = await self._run(partial(cluster_archive, self._engine))
        try:
            await self._run(partial(check_own, objects, self._engine))
        except ArchiveError as error:
            if _ends_start(error):
                raise
            self._logger.warning("this member's disk was not compared with the archive", error=str(error))

    def _follow(self, statuses: list[Status]) -> None:
        """Show the progress of the member that fills memory."""
        for status in statuses:
            if status.loading:
                self._lifecycle.to(Phase.LOADING, loading=status.name, **load_progress(status))

    async def _try_to_archive(self) -> None:
        """Archive this member's tails. If the archive cannot be read, or takes no object, note that and try again later.

        An archive that can be read, and refuses the tails for another reason than its space, objects: to an older copy of a log
        here, for example. That error is raised.
        """
        elapsed = self._engine.options.clock.elapsed
        if elapsed() < self._archive_due:
            return
        self._show("archiving", Phase.WAITING, archiving=self._engine.options.archive_url)
        objects = await self._run(partial(cluster_archive, self._engine))
        try:
            await self._run(partial(check_own, objects, self._engine))
        except ArchiveError as error:
            if _ends_start(error):
                raise
            self._note_archive(str(error))
            self._archive_due = elapsed() + _AGAIN_SECONDS
            return
        try:
            await self._archive_tails(objects)
        except NotTaken as error:
            self._note_archive(str(error))
            self._archive_due = elapsed() + _AGAIN_SECONDS
        else:
            self._note_archive("")

    def _note_archive(self, error: str) -> None:
        self._archive_error = error
        self._statuses.away = bool(error)

    async def _archive_tails(self, objects: Objects) -> None:
        """Afterwards the archive holds all of this node's logs, and every archived log of this node is on this disk.

        `NotTaken` if the archive takes no object. The nodes that have logs there are on record all the same."""
        context = self._engine.options
        places = await self._run(partial(registered, objects, context.namespace, context.cluster))
        await self._record.note_registered(sorted({place.node for place in places}))
        await self._engine.archive()
        self._statuses.archived = True

    async def _settle(self, recovered: FilledMemory) -> bool:
        """Memory is whole: put all members on record, and wait until all have this member on theirs. Returns whether this member
        was away when memory was filled."""
        was_away = await self._run(partial(self._arm, recovered))
        await poll_until(bool, partial(self._patiently, partial(self._join, recovered)), pause=_POLL_SECONDS)
        check_whole(self._gate)
        return was_away

    async def _join(self, recovered: FilledMemory) -> bool:
        """One step towards the quorum of serving members; True when this member is in it. `NotRecovered` once memory has lost a
        part."""
        check_whole(self._gate)
        living = await self._run(self._membership.living)
        statuses = await self._statuses.all()
        members = self._record.members | {name: at for status in statuses for name, at in status.expected.items()}
        without = set(recovered.without)
        self._record.expect({name: at for name, at in members.items() if not {name, at} & without})
        await self._record.keep(statuses)
        await self._statuses.publish()
        unsure = unknown_to(self._options.node, statuses, [peer.name for peer in living])
        left = [name for name, at in members.items() if {name, at} & set(self._options.without)]
        if await self._run(partial(self._quorum_membership.enter, statuses, gone=left)) and not unsure:
            return True
        joining = unsure or "until more than half of the expected members agree"
        self._show("joining", self._lifecycle.phase, joining=joining)
        return False

    def _arm(self, recovered: FilledMemory) -> bool:
        """From now on the gate notes every loss of memory. Returns whether this member was away when memory was filled.

        A member that saw memory being filled knows which members have gone since. A member that joined later knows what it lost
        while it was given its part.
        """
        was_away = self._membership.own.member not in recovered.living
        self._gate.arm(was_away)
        gone = set(recovered.living) - {peer.member for peer in self._membership.living()}
        if not was_away and len(gone) > self._options.file.backups:
            self._gate.lose("too many members went at once, when memory had just been filled")
        return was_away

    def _show(self, message: str, phase: Phase, **progress: object) -> None:
        """Enter or stay in `phase` with this progress, and log it once."""
        if self._lifecycle.to(phase, **progress):
            self._logger.info(message, **progress)

    async def _run(self, call: Callable[[], T]) -> T:
        return await self._workers.run(call)

    async def _patiently(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of `step`, which is made again while the archive or another member cannot be asked."""
        errors = (ArchiveError, ClusterUnreachable, jpype.JException)
        return await retry_awaiting(step, errors, self._wait_for, pause=_AGAIN_SECONDS)

    def _wait_for(self, error: Exception) -> None:
        """Show what this member waits for. Raises an error that would come again."""
        reason = str(error)
        if isinstance(error, jpype.JException):
            reason = f"memory could not be filled: {error}"
        elif _ends_start(error):
            raise error
        self._show("still recovering", self._lifecycle.phase, waiting_for=[reason])
