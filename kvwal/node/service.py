"""A node from its start to its end: recover, serve, and leave in order when it is told to."""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any

import jpype

from kvwal.cluster.clock_bounds import BoundedClock, ClockBounds
from kvwal.cluster.map_names import flush_for, to_map
from kvwal.cluster.membership import LocalMembership, MembershipFile
from kvwal.cluster.recovery_buffer import RecoveryBuffer
from kvwal.config import Flush
from kvwal.entry import timestamps_within
from kvwal.errors import ArchiveError, ClusterUnreachable, KvwalError, LogFailed, StorageFull
from kvwal.node import jvm, member
from kvwal.node.adapters.bootstrap import Bootstrap
from kvwal.node.adapters.clock_bounds import ClockBoundsExchange
from kvwal.node.adapters.destroyed_maps import Absence, may_let_go
from kvwal.node.adapters.failover import Adoption
from kvwal.node.adapters.link_watch import Links
from kvwal.node.adapters.membership import Membership
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.adapters.rejoin import Rejoin
from kvwal.node.config import NodeOptions
from kvwal.node.health import Access, HttpServer, NodeStatus, Phase, application
from kvwal.node.local_logs import is_alone, open_logs
from kvwal.node.log_bridge import Glue
from kvwal.node.metrics import Metrics
from kvwal.node.requests.history_service import HistoryService
from kvwal.node.requests.log_copies import Copies
from kvwal.node.requests.loop import Answer, RequestLoop
from kvwal.node.requests.peers import Peers
from kvwal.ports.boundary import on_signals, raised_to_awaiter, start_task, when_done
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.engine import Engine
from kvwal.store.options import Default, Options
from kvwal.structures.state import Now

_LOOK_SECONDS = 0.25
_FULL_SECONDS = 10.0
_ADOPT_AGAIN_SECONDS = 10.0
_ADOPT_SECONDS = 1.0
_ARCHIVE_SECONDS = 75.0
"""For archiving tails when it leaves: whoever runs a node gives it two minutes, and every log is to be ended in them."""
_FORGET_SECONDS = 30.0
"""For all members to archive what they have, before what the archive holds of destroyed maps goes."""
_PATIENCE = 5
"""Archive intervals that a map with few changes waits, where a lost disk alone costs nothing."""
READY = "kvwal node {node} is ready at {address}"


class Service:
    """One node. `run` returns when it has left."""

    def __init__(self, options: NodeOptions) -> None:
        self._options = options
        self._logger = get_logger(__name__).bind(node=options.node)
        self._stop = asyncio.Event()
        self._askers = ThreadWorkers("kvwal-askers", 16)
        self._workers = ThreadWorkers("kvwal-node", 4)
        # A read of the past takes long: what the members tell each other does not wait for it.
        self._readers = ThreadWorkers("kvwal-past", 4)
        self._scrapers = ThreadWorkers("kvwal-metrics", 1)
        self._bounds = ClockBounds()
        metrics = Metrics(options.file.volatile)
        self._engine = Engine(
            self._store_options(metrics), own_loop=True, memory=self._memory,
            hybrid=lambda: BoundedClock(self._bounds), flush_of=self._flush_of,
        )  # fmt: skip
        self._alone = True
        self._mailboxes = jvm.java("kvwal.log.BatchQueues")()
        self._gate = jvm.java("kvwal.node.ReadyGate")()
        self._fence = jvm.java("kvwal.clock.OwnershipFence")()
        self._node_status = NodeStatus(self._engine, self._gate, metrics)
        self._leases = member.leases()
        self._heard = jvm.java("kvwal.quorum.LinkMonitor")()
        self._links: Links | None = None
        self._majority = member.majority(self._gate, self._leases)
        self._questions = jvm.java("kvwal.history.HistoryRequests")(self._gate, self._majority)
        self._peer_questions = jvm.java("kvwal.history.HistoryRequests").ofPeers()
        self._engine.let_small_segments_wait(self._patience)
        self._engine.forget_if(self._may_forget)
        self._full_since = math.inf
        self._beside: list[asyncio.Task[None]] = []
        self._pump: asyncio.Task[None]

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until what carries writes to the log has stopped. `ArchiveError` if it was told to
        leave, and its root is needed still."""
        loop = asyncio.get_running_loop()
        on_signals(loop, (signal.SIGTERM, signal.SIGINT), self._stop.set, self._stopped_beside)
        glue = Glue(self._mailboxes, self._engine, self._is_alone)
        self._pump = start_task(glue.run(), raised_to_awaiter)
        when_done(self._pump, lambda _: self._stop.set(), self._stopped_beside)
        http: HttpServer | None = None
        try:
            http = self._start_http()
            serving = start_task(self._serve(), raised_to_awaiter)
            watching = start_task(self._watch(), raised_to_awaiter)
            stopped = start_task(self._stop.wait(), raised_to_awaiter)
            await asyncio.wait({serving, watching, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, watching, stopped):
                task.cancel()
            for ended in await asyncio.gather(serving, watching, return_exceptions=True):
                if isinstance(ended, jpype.JException):
                    self._check_running()  # if it is not, that says more than what came of it
                if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
                    raise ended
        finally:
            await self._leave()
            if http is not None:
                await http.close()
            self._askers.close()
            self._workers.close()
            self._readers.close()
            self._scrapers.close()
            if self._links is not None:
                self._links.close()
        self._check_archived()

    async def _serve(self) -> None:
        """Recover, and see to the others until this is cancelled, or memory has a hole."""
        recovery = await self._start()
        if self._node_status.adoption is not None:
            self._begin(self._adopt(self._node_status.adoption))
        while True:
            recovery.check_whole()
            try:
                await recovery.look()
                await self._say_ready()
                await self._go_if_failing(recovery)
            except ClusterUnreachable as error:
                self._logger.warning("the other members could not be asked", error=str(error))
            await asyncio.sleep(_LOOK_SECONDS)

    async def _watch(self) -> None:
        """Whatever else waits for a member that has ended waits for ever: it asks again, or has no answer."""
        while True:
            self._check_running()
            self._node_status.look_at_queries()
            if self._links is not None:
                await self._links.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def _check_running(self) -> None:
        if self._links is not None:
            self._links.check_whole()
        if self._node_status.instance is not None:
            member.check_running(self._node_status.instance)

    async def _say_ready(self) -> None:
        """Once every key is in as many memories as it should be."""
        if self._node_status.phase is not Phase.COPYING:
            return
        copied = jvm.java("kvwal.node.HazelcastInternals").areCopied
        if await self._workers.run(partial(copied, self._node_status.instance, self._options.file.backups)):
            self._node_status.phase = Phase.SERVING
            self._logger.info("ready")
            sys.stdout.write(READY.format(node=self._options.node, address=self._options.address) + "\n")
            sys.stdout.flush()

    async def _adopt(self, adoption: Adoption) -> None:
        """As long as the node serves: members that are killed are adopted."""
        while True:
            try:
                await adoption.step()
            except (KvwalError, jpype.JException) as error:
                self._logger.warning(
                    "what a killed member had could not be adopted", lost=adoption.lost, error=str(error)
                )
                await asyncio.sleep(_ADOPT_AGAIN_SECONDS)
            await asyncio.sleep(_ADOPT_SECONDS)

    async def _go_if_failing(self, recovery: Bootstrap) -> None:
        """A node whose keys cannot be written leaves, if those that stay can serve without it: they take its keys over."""
        failed, full = self._node_status.failed(), self._node_status.full()
        now = self._engine.options.clock.elapsed()
        self._full_since = min(self._full_since, now) if full else math.inf
        recovery.failing = bool(failed or full)
        if failed and await recovery.may_go():
            raise LogFailed(
                f"the log of {', '.join(failed)} has failed ({next(iter(failed.values()))}); this node has left, and the others"
                " serve its keys.",
                hint="Look at its disk, then start it again: it recovers every acknowledged write.",
            )
        lasts = now - self._full_since >= _FULL_SECONDS
        if full and lasts and await recovery.may_go(at_least=self._options.file.backups + 1):
            raise StorageFull(
                f"the disk has been full for {_FULL_SECONDS:g} s ({next(iter(full.values()))}); this node has left, and the"
                " others serve its keys.",
                hint="Make room on its disk, then start it again.",
            )

    def _is_alone(self) -> bool:
        return self._alone if self._node_status.recovery is None else self._node_status.recovery.alone

    def _patience(self) -> int:
        """What a lost disk had is in the memory of another member, which adopts it, as long as there is one."""
        recovery = self._node_status.recovery
        return _PATIENCE if recovery is not None and recovery.living > 1 and self._options.file.backups else 1

    async def _may_forget(self) -> bool:
        recovery = self._node_status.recovery
        return recovery is not None and await recovery.nothing_is_missing(within=_FORGET_SECONDS)

    def _memory(self, now: Now) -> RecoveryBuffer:
        return RecoveryBuffer(now, collects=self._alone)

    async def _start(self) -> Bootstrap:
        options, around, node_status = self._options, self._engine.options, self._node_status
        file = MembershipFile(around.disk, around.root, around.namespace, around.cluster, self._engine.node)
        self._alone = await self._workers.run(lambda: is_alone(options, self._engine, file.read()))
        between = (self._leases, self._heard, self._majority)
        glue = (self._mailboxes, self._gate, self._fence, *between, self._questions, self._peer_questions)
        config = member.configuration(options, around.archive_url, *glue)
        tls = member.make_tls(options.file.tls)
        node_status.phase = Phase.RECOVERING
        await open_logs(self._engine)
        instance = node_status.instance = await self._workers.run(
            partial(member.start, config, options.file.volatile, options.token, tls)
        )
        node_status.queries = jvm.java("kvwal.member.QueryProbe")(instance)
        self._leases.begin(instance)
        self._heard.begin(instance)
        membership = Membership(instance, jvm.java("kvwal.clock.ClockBounds")(instance), self._leases)
        # Before it tells the others anything, under a name that may be another one's.
        await self._workers.run(membership.check)
        quorum_membership = QuorumMembership(
            membership, options.node, self._majority.expect if options.file.majority else lambda names: None
        )
        make_loader = partial(jvm.java("kvwal.log.MemoryLoader"), instance)
        record = LocalMembership(file, self._workers, options.node, str(options.address), alone=self._alone)
        peers = Peers(instance, membership, self._engine, self._askers, self._readers)
        self._answer(self._peer_questions, peers.answer)
        copies = Copies(peers.own_copy, peers.ask, self._engine, self._readers)
        recovery = node_status.recovery = Bootstrap(
            options, self._engine, membership, quorum_membership, make_loader, self._workers, record, self._gate, copies
        )
        node_status.adoption = Adoption(
            membership, lambda: quorum_membership.current if options.file.majority else None,
            partial(jvm.java("kvwal.failover.FailoverAppend"), instance), recovery.all_archive, recovery.objects,
            (around.namespace, around.cluster), timestamps_within(around.settings.max_skew_seconds),
            around.clock, self._workers,
        )  # fmt: skip
        self._answer(self._questions, HistoryService(self._engine, recovery, peers, self._readers).answer)
        limits = node_status.limits = ClockBoundsExchange(membership, self._bounds, self._fence, around.clock)
        await limits.begin(around.settings.max_skew_seconds)
        loaded = await recovery.run()
        await peers.own_copy.clear()
        self._let_logs_go(recovery)
        await limits.rise(recovery.newest)
        limits.serve()
        gc.freeze()  # what is here now stays; see `load_own`
        self._gate.open()
        self._links = Links(
            instance, self._heard, self._gate.lose, recovery.check_whole, membership,
            lambda: quorum_membership.current if options.file.majority else None, around.clock,
        )  # fmt: skip
        node_status.phase = Phase.COPYING
        self._logger.info("serving", address=str(options.address), entries=loaded)
        if not recovery.alone:
            self._begin(Absence(self._engine, recovery.all_archive, recovery.objects, self._readers).run())
        if recovery.was_away:
            self._begin(Rejoin(instance, self._engine, recovery, membership, quorum_membership).run())
        return recovery

    def _let_logs_go(self, recovery: Bootstrap) -> None:
        """A log that holds nothing now is of a map that was destroyed; or, of a node alone, made again when it is written to."""
        for business in self._engine.businesses.values():
            business.maintenance.retires = may_let_go(self._engine, business, alone=recovery.alone)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Something to do beside, until the node leaves."""
        task = start_task(work, self._stopped_beside)
        self._beside.append(task)
        return task

    def _answer(self, asked: Any, answer: Answer) -> None:
        """Answer what is asked, until the node leaves: nobody may wait where nobody answers."""
        answering = self._begin(RequestLoop(asked, ThreadWorkers("kvwal-questions", 1), answer).run())
        when_done(answering, lambda _: asked.close(), self._stopped_beside)

    def _stopped_beside(self, error: BaseException) -> None:
        """Should a bug have stopped it, that must not go unnoticed."""
        self._logger.error("something that this node does beside serving has stopped", exc_info=error)

    async def _leave(self) -> None:
        """Hand the partitions over, write what is on its way, archive the tail, and end the logs cleanly."""
        node_status = self._node_status
        served, node_status.phase = node_status.phase in (Phase.COPYING, Phase.SERVING), Phase.LEAVING
        self._logger.info("leaving")
        for task in self._beside:
            task.cancel()
        self._questions.close()
        self._peer_questions.close()
        await asyncio.gather(*self._beside, return_exceptions=True)
        whole = self._gate.lost() is None
        if served and whole and node_status.recovery is not None:
            await node_status.recovery.withdraw()
        self._gate.leave()
        if node_status.limits is not None:
            await node_status.limits.end()
        if node_status.instance is not None:
            instance = node_status.instance
            await self._workers.run(instance.shutdown if whole else instance.getLifecycleService().terminate)
        self._leases.close()
        self._heard.close()
        self._mailboxes.close()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._engine.close(archive=self._engine.options.archive_named, within=_ARCHIVE_SECONDS)
        if lacking := self._unarchived():
            self._logger.warning(
                "the archive was not seen to hold all of this node's logs: keep its root", lacking=lacking
            )
        self._logger.info("left")
        if not self._pump.cancelled() and (error := self._pump.exception()) is not None:
            raise error

    def _unarchived(self) -> list[str]:
        """Logs whose tail may be on this disk only, and which sequences those are."""
        engine = self._engine
        if not engine.options.archive_named:
            return []
        found = []
        # Told to leave before it had opened all of its logs, it knows of the others by their folders only.
        for name in sorted(engine.businesses) if self._node_status.recovery is not None else engine.names():
            if name not in engine.businesses:
                found.append(f"{name} (it was not opened)")
            elif tail := engine.businesses[name].unarchived:
                found.append(f"{name} (sequences {tail[0]}–{tail[-1]})")
        return found

    def _check_archived(self) -> None:
        """Who left in order is not expected any more, and nobody adopts what its disk alone has: its end must say so."""
        if lacking := self._unarchived():
            raise ArchiveError(
                f"{self._options.node} has left, but the archive was not seen to hold the tail of {', '.join(lacking)}.",
                hint=f"Keep {self._options.root}: start the node again, or run `kvwal archive run` on it, before you remove it.",
            )

    def _start_http(self) -> HttpServer | None:
        if self._options.http is None:
            return None
        access = Access(self._options.http_token, closed=self._options.token is not None)
        figures = partial(self._scrapers.run, self._node_status.page)
        return HttpServer(application(self._node_status.ready, figures, access), self._options.http)

    def _flush_of(self, business: str) -> Flush:
        return flush_for(to_map(business), self._options.file.policies(), self._options.flush)

    def _store_options(self, metrics: Metrics) -> Options:
        options = self._options
        return Options(
            options.root, namespace=options.namespace, cluster=options.cluster, node=options.node,
            archive=_archive(options.archive), flush=options.flush, storage_options=None, settings=options.file.log,
            accept_clock=False, progress=None, metrics=metrics,
        )  # fmt: skip


def _archive(typed: str | None) -> str | Default | None:
    if typed is None:
        return Default.ARCHIVE
    return None if typed == "none" else typed


def run(options: NodeOptions) -> None:
    """Run a node in this process until it has left. `ConfigError` if it cannot be as it was told."""
    jvm.start(options.file.heap, options.file.hazelcast_jar, options.file.java_options)
    asyncio.run(_run(options))


async def _run(options: NodeOptions) -> None:
    await Service(options).run()
