"""How a node's memory becomes whole when it starts: from its own logs, from the archive of all, or from members that have it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import jpype
import msgspec

from archive.objects import Objects, open_objects
from archive.registry import registered
from kvwal.cluster.archive_load import ArchiveLoad, Progress
from kvwal.cluster.bootstrap import Recovered, Status, is_away, left_out, missing, strangers, unknown_to, unproved
from kvwal.cluster.membership import LocalMembership
from kvwal.cluster.rejoin import WINDOW_MS
from kvwal.cluster.transactions import finish
from kvwal.errors import ArchiveError, ClusterUnreachable, ConfigError, Kind, NotRecovered
from kvwal.node.adapters.archive_requests import Archiving, not_archived
from kvwal.node.adapters.membership import Membership, Peer
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.config import NodeOptions
from kvwal.node.local_logs import check_own, load_own
from kvwal.node.requests.log_copies import Copies
from kvwal.ports.boundary import raised_to_awaiter, start_task
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine

T = TypeVar("T")

_POLL_SECONDS = 0.1
_AGAIN_SECONDS = 2.0
_TOLD_SECONDS = 5.0
_WITHDRAW_SECONDS = 3.0


class Bootstrap:
    """From a member that has just started to one that may serve. `told` is what it is doing now, for people; `failing` is for the
    others to know; `newest` is the greatest timestamp that was loaded, by whichever member; `logged` that of the last entry that
    the log of each business held at the start; `living` how many members there are, while it serves; `was_away`: others had
    memory filled when this member came, so that what it wrote last may be in nobody's."""

    def __init__(
        self,
        options: NodeOptions,
        engine: Engine,
        membership: Membership,
        quorum_membership: QuorumMembership,
        make_loader: Callable[[], Any],
        workers: Workers,
        record: LocalMembership,
        gate: Any,
        copies: Copies,
    ) -> None:
        self.told: dict[str, object] = {}
        self._options = options
        self._engine = engine
        self._membership = membership
        self._quorum_membership = quorum_membership
        self.failing = False
        self.living = 0
        self._make_loader = make_loader
        self._workers = workers
        self._record = record
        self._gate = gate
        self.newest = 0
        self._copies = copies
        self._archived = False
        self._away = ""
        self._unproved: list[str] = []
        self._archive_due = 0.0
        self._loaded = 0
        self.was_away = False
        self._since = self._record.apart
        self.logged = {name: found.log.recovered.last_timestamp for name, found in engine.businesses.items()}
        self._archiving = Archiving(options.node, engine.archive)
        self._last: Status | None = None
        self._logger = get_logger(__name__).bind(node=options.node)

    async def run(self) -> int:
        """Returns when memory is whole and every member has this one on its record; how many entries it loaded itself.

        `NotRecovered` if memory gets a hole meanwhile; `ConfigError` if --without names what never was a member.
        """
        while not await self._patiently(self._check_without):
            pass
        while (recovered := await self._patiently(self._step)) is None:
            await asyncio.sleep(0 if self._loaded else _POLL_SECONDS)
        await self._settle(recovered)
        return self._loaded

    async def look(self) -> None:
        """Put on record whoever came and may stay. To be called from time to time while the node serves."""
        statuses = await self._statuses()
        await self._record.keep(statuses)
        await self._note_apart(apart=self._quorum_membership.lacks(statuses))
        await self._run(self._quorum_membership.look)
        self._archiving.answer(statuses)
        self.living = len(statuses)
        await self._tell(self._status())

    def check_whole(self) -> None:
        """`NotRecovered` once memory has a hole."""
        if (lost := self._gate.lost()) is not None:
            raise NotRecovered(
                f"{lost}; nobody is to take what is missing here for absent.",
                hint="Start this node again, and whoever else ended: what the logs hold is loaded anew.",
            )

    @property
    def alone(self) -> bool:
        """Whether no other node ever had a log of this cluster."""
        return self._record.alone

    @property
    def apart_ms(self) -> int:
        """Since when it may have been alone before it was away, as far as is known."""
        return self._since or self._engine.options.clock.wall_ms()

    def note_compared(self) -> None:
        """What its log holds was compared with the memory of the others: see `Rejoin`."""
        self._since = 0

    async def all_archive(self, *, within: float = math.inf) -> None:
        """Returns when the archive has what the logs of all living members held when this was called. `ArchiveError`, which
        names who is not done, if that takes more than `within` seconds."""
        clock = self._engine.options.clock
        until = clock.elapsed() + within
        number = self._archiving.ask(clock.wall_ms(), await self._statuses())
        while lacking := self._archiving.lacking(
            number, await self._statuses(), await self._run(self._membership.names)
        ):
            if clock.elapsed() > until:
                raise not_archived(lacking, within)
            await asyncio.sleep(_POLL_SECONDS)

    async def nothing_is_missing(self, *, within: float) -> bool:
        """Whether every member on record is there, and the archive has what its logs held when this was called: nobody can bring
        something older later. `ArchiveError` if that takes more than `within` seconds."""
        if not self.alone:
            if not self._record.members.keys() <= await self._run(self._membership.names):
                return False
            await self.all_archive(within=within)
        return True

    async def _note_apart(self, *, apart: bool) -> None:
        """Durably, since when an expected member is out of sight: a member that ends meanwhile compares from there."""
        since = self._record.apart
        if apart and not since:
            since = self._engine.options.clock.wall_ms() - WINDOW_MS
        elif not apart and not self._since:
            since = 0
        await self._record.note_apart(since)

    async def may_go(self, *, at_least: int = 1) -> bool:
        """See `QuorumMembership.may_go`."""
        return self._quorum_membership.may_go(await self._statuses(), at_least=at_least)

    async def withdraw(self) -> None:
        """Count no more among those of whom more than half must be there, if the others can be told so in time."""
        clock = self._engine.options.clock
        until = clock.elapsed() + _WITHDRAW_SECONDS
        try:
            while not await self._run(partial(self._quorum_membership.leave, await self._statuses())):
                if clock.elapsed() > until:
                    break
                await self._tell(self._status())
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return
        except ClusterUnreachable as error:
            self._logger.warning("the other members could not be asked", error=str(error))
        self._logger.warning(
            "the others were not told in time that this member leaves: they expect it, as if it was killed"
        )

    async def _check_without(self) -> bool:
        """A mistyped name would leave the one that is meant waited for, or a typing error believed to have worked."""
        known = [self._status(), *await self._statuses()]
        unknown = strangers(self._options.without, known)
        around = self._engine.options
        if unknown and around.archive_url is not None:
            places = await self._run(lambda: registered(self.objects(), around.namespace, around.cluster))
            unknown = strangers(unknown, known, {place.node for place in places})
        if unknown:
            raise ConfigError(
                f"--without {', '.join(unknown)}: no member was ever called that, or had that address.",
                hint=f"The members on record are {', '.join(f'{name} ({at})' for name, at in self._record.members.items())}.",
            )
        return True

    async def _step(self) -> Recovered | None:
        """What the others say of memory once it is whole; before, one step towards that."""
        recovered = await self._run(self._membership.recovered)
        if recovered is None:
            self._loaded = 0
            self._loaded = await self._turn()
        return recovered

    async def _turn(self) -> int:
        """One step towards a whole memory; how many entries were loaded, if it was this member that did it."""
        if self.alone:
            loaded = await load_own(self._engine, self._make_loader(), self._workers)
            await self._run(partial(self._quorum_membership.begin, [self._options.node]))
            recovered = Recovered(by=self._options.node, living=[self._membership.own.member])
            await self._run(partial(self._membership.tell_recovered, recovered))
            return loaded
        await self._tell(self._status())
        if not self._archived:
            await self._try_to_archive()
        await self._tell(self._status())
        living = await self._run(self._membership.living)
        statuses = await self._statuses()
        names = [peer.name for peer in living]
        leads = living[0].name == self._options.node
        if lacking := missing(statuses, names):
            if leads and is_away(statuses, names):
                return await self._fill_from_disks(living, statuses)
            self._say("waiting for members", waiting_for=[*lacking, *filter(None, [self._away])])
        elif leads:
            return await self._fill(living, statuses, await self._run(self.objects))
        else:
            self._follow(statuses)
        return 0

    def _follow(self, statuses: list[Status]) -> None:
        """Another member fills the memory: say how far it is."""
        for status in statuses:
            if status.loading:
                self.told = {"loading": status.name, **_progress(status)}

    async def _try_to_archive(self) -> None:
        """See `_archive_tails`. An archive that cannot be read is away: that is noted, and not tried again for a moment. One that
        can be read and takes no tails has a reason, as that a log here is an older copy: then the error is raised."""
        elapsed = self._engine.options.clock.elapsed
        if elapsed() < self._archive_due:
            return
        self._say("archiving", archiving=self._engine.options.archive_url)
        objects = await self._run(self.objects)
        try:
            await self._run(partial(check_own, objects, self._engine))
        except ArchiveError as error:
            if error.kind is not Kind.RETRY:
                raise
            self._away = str(error)
            self._archive_due = elapsed() + _AGAIN_SECONDS
        else:
            self._away = ""
            await self._archive_tails(objects)

    async def _fill_from_disks(self, living: list[Peer], statuses: list[Status]) -> int:
        """The archive is away, and all members are there: their disks are enough, if they hold all that was acknowledged."""
        why_not = unproved(statuses, [peer.name for peer in living]) or self._unproved
        if why_not:
            self._say("waiting for the archive", waiting_for=[*why_not, *filter(None, [self._away])])
            return 0
        self._say("filling memory from the disks of all members", archive_away=self._away)
        try:
            objects = await self._copies.gather(self._options.node, living)
        except ArchiveError as error:
            self._unproved = [str(error)]
            return 0
        return await self._fill(living, statuses, objects)

    async def _archive_tails(self, objects: Objects) -> None:
        """Afterwards the archive holds all of this node's logs, and each of those that it has of this node is here."""
        await self._engine.archive()
        await self._note_registered(objects)
        self._archived = True

    async def _note_registered(self, objects: Objects) -> None:
        where = (self._engine.options.namespace, self._engine.options.cluster)
        places = await self._run(partial(registered, objects, *where))
        await self._record.note_registered(sorted({place.node for place in places}))

    def objects(self) -> Objects:
        """The archive of the cluster. `ConfigError` if there is none."""
        url = self._engine.options.archive_url
        if url is None:
            raise ConfigError(
                "this node was a member of a cluster of several, and its own logs are not all there is.",
                hint="Name the cluster's archive with --archive.",
            )
        return open_objects(url, self._engine.options.storage_options)

    async def _fill(self, living: list[Peer], statuses: list[Status], objects: Objects) -> int:
        around = self._engine.options
        progress = Progress(around.clock.elapsed)
        restore = ArchiveLoad(
            objects, around.namespace, around.cluster, self._make_loader(), now_ms=around.clock.wall_ms(),
            skew_ms=int(around.settings.max_skew_seconds * 1000), progress=progress,
        )  # fmt: skip
        without = sorted(left_out(statuses))
        self._logger.info("filling memory", members=[peer.name for peer in living], without=without)
        filling = start_task(self._workers.run(restore.run), raised_to_awaiter)
        logged = around.clock.elapsed()
        try:
            while not filling.done():
                await self._tell(self._status(progress))
                await asyncio.wait({filling}, timeout=_POLL_SECONDS * 5)
                if around.clock.elapsed() - logged >= _TOLD_SECONDS:
                    logged = around.clock.elapsed()
                    self._logger.info("filling memory", **_progress(self._status(progress)))
        except ClusterUnreachable:
            await asyncio.gather(filling, return_exceptions=True)  # or another one would begin beside it
            raise
        loaded = await filling
        for name, intent, changes in restore.unfinished:
            await finish(await self._engine.business(name), intent, changes)
        self._gate.arm(False)
        members = [peer.member for peer in living]
        if not set(members) <= {peer.member for peer in await self._run(self._membership.living)}:
            self._gate.disarm()
            self._logger.warning("a member went while memory was filled; once more")
            return 0
        await self._run(partial(self._quorum_membership.begin, [peer.name for peer in living]))
        recovered = Recovered(by=self._options.node, without=without, living=members, newest=restore.newest)
        await self._run(partial(self._membership.tell_recovered, recovered))
        return loaded

    async def _settle(self, recovered: Recovered) -> None:
        """Memory is whole: put all on record, and wait until all have this member on theirs."""
        self.newest = recovered.newest
        await self._run(partial(self._arm, recovered))
        while not await self._patiently(partial(self._join, recovered)):
            self.check_whole()
            await asyncio.sleep(_POLL_SECONDS)
        self.check_whole()
        self.told = {}

    async def _join(self, recovered: Recovered) -> bool:
        """One step towards being one of those that serve; True when this member is."""
        living = await self._run(self._membership.living)
        statuses = await self._statuses()
        members = self._record.members | {name: at for status in statuses for name, at in status.expected.items()}
        without = set(recovered.without)
        self._record.expect({name: at for name, at in members.items() if not {name, at} & without})
        await self._record.keep(statuses)
        await self._tell(self._status())
        unsure = unknown_to(self._options.node, statuses, [peer.name for peer in living])
        left = [name for name, at in members.items() if {name, at} & set(self._options.without)]
        if await self._run(partial(self._quorum_membership.enter, statuses, gone=left)) and not unsure:
            return True
        self._say("joining", joining=unsure or "until more than half of the expected members agree")
        return False

    def _arm(self, recovered: Recovered) -> None:
        """From now on nothing may be lost from memory unnoticed. Whoever saw it being filled knows who has gone since; whoever
        came later, what it lost while it was given its part."""
        self.was_away = self._membership.own.member not in recovered.living
        self._gate.arm(self.was_away)
        gone = set(recovered.living) - {peer.member for peer in self._membership.living()}
        if not self.was_away and len(gone) > self._options.file.backups:
            self._gate.lose("too many members went at once, when memory had just been filled")

    def _status(self, progress: Progress | None = None) -> Status:
        own = self._membership.own
        found = Status(
            member=own.member, name=own.name, address=own.address, expected=self._record.members, left=self._record.left,
            looked=self._record.looked, was_there=self._record.was_there, away=bool(self._away),
            listed=[str(address) for address in self._options.members], without=list(self._options.without),
            archived=self._archived, alone=self.alone, votes=self._quorum_membership.version, failing=self.failing,
            asks=self._archiving.asks, answered=self._archiving.answered,
        )  # fmt: skip
        if progress is None:
            return found
        told = msgspec.structs.replace(
            found, loading=True, entries=progress.entries, most=progress.most, eta_seconds=progress.eta_seconds()
        )
        self.told = {"loading": own.name, **_progress(told)}
        return told

    async def _statuses(self) -> list[Status]:
        """What all told. If what this one told is not among it, it went with members that went: it is told again."""
        found = await self._run(self._membership.statuses)
        if self._last not in found:
            self._last = None
        return found

    async def _tell(self, status: Status) -> None:
        if status != self._last:
            await self._run(partial(self._membership.tell, status))
            self._last = status

    def _say(self, what: str, **found: object) -> None:
        """Let people know what it is waiting for, in the log once."""
        if self.told != found:
            self.told = found
            self._logger.info(what, **found)

    async def _run(self, call: Callable[[], T]) -> T:
        return await self._workers.run(call)

    async def _patiently(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """What has no answer now, as the archive or another member, may have one later: say so, and go on asking."""
        try:
            return await work()
        except (ArchiveError, ClusterUnreachable) as error:
            if error.kind is not Kind.RETRY:
                raise
            self._say("still recovering", waiting_for=[str(error)])
        except jpype.JException as error:
            self._say("still recovering", waiting_for=[f"memory could not be filled: {error}"])
        await asyncio.sleep(_AGAIN_SECONDS)
        return None


def _progress(status: Status) -> dict[str, object]:
    return {"entries": status.entries, "of_at_most": status.most, "eta_seconds": status.eta_seconds}
