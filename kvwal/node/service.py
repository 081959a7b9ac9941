"""Service of one node: it starts the parts in order, serves until it is told to stop, and leaves the cluster in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Coroutine
from functools import partial
from itertools import count
from typing import Any

import jpype

from kvwal.cluster.clock_bounds import BoundedClock, ClockBounds
from kvwal.cluster.map_names import flush_for, to_map
from kvwal.cluster.membership import LocalMembership, MembershipFile
from kvwal.cluster.recovery_buffer import RecoveryBuffer
from kvwal.config import Flush
from kvwal.errors import ArchiveError, ClockSkew, LogFailed, StorageFull
from kvwal.node import jvm, member
from kvwal.node.adapters.archive_requests import cluster_archive
from kvwal.node.adapters.destroyed_maps import MissedDestroySearch, may_retire_log
from kvwal.node.adapters.rejoin_repair import Rejoin
from kvwal.node.config import NodeOptions
from kvwal.node.health.http import HttpAccess, HttpServer, application
from kvwal.node.health.metrics import LineCount, Metrics
from kvwal.node.health.status import Certificate, NodeStatus
from kvwal.node.health.token_watch import TokenWatch
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.node.local_logs import has_new_root, is_alone, open_logs
from kvwal.node.log_bridge import LogBridge
from kvwal.node.parts import Pools, ServingParts, build_parts
from kvwal.node.requests.figures_service import FiguresService
from kvwal.node.requests.loop import Answer, RequestLoop
from kvwal.node.requests.lost_tails import LostTailCloser
from kvwal.node.serving import ServingLoop
from kvwal.ports.boundary import on_signals, raised_to_awaiter, start_task, when_done
from kvwal.ports.clock import SYSTEM
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.context import StoreContext
from kvwal.store.engine import Engine
from kvwal.store.options import Options, archive_argument
from kvwal.structures.guards import Now
from kvwal_archive.layout import Place

_ARCHIVE_SECONDS = 75.0
"""For archiving tails while the node leaves. Operators give a node two minutes to end, and every log has to be closed in them."""
_FORGET_SECONDS = 30.0
"""For all members to archive their logs, before the archive's objects of destroyed maps are removed."""
_WATCH_SECONDS = 0.5
_QUERY_LOOKS = 2
_ARCHIVE_INTERVALS = 5
"""Archive intervals that a map with few changes waits, where the loss of one disk alone loses nothing."""


class Service:
    """One node. `run` returns when the node has left the cluster."""

    def __init__(self, options: NodeOptions) -> None:
        self._options = options
        self._logger = get_logger(__name__).bind(node=options.node)
        self._stop = asyncio.Event()
        self._pools = Pools.create()
        self._tls = member.make_tls(options.file.tls, SYSTEM.wall_ms())
        self._java = member.JavaObjects.create()
        self._tokens = None if options.token is None else member.make_tokens(options.token)
        files = [source for source in (options.token, options.http_token) if source is not None]
        self._token_watch = TokenWatch(files, self._change_tokens, self._pools.workers)
        self._bounds = ClockBounds(memoryview(self._java.fence.stamped()))
        metrics = Metrics(options.file.volatile)
        logging.getLogger().addHandler(LineCount(metrics))
        self._engine = Engine(
            self._store_options(metrics), own_loop=True, memory=self._memory,
            hybrid=lambda: BoundedClock(self._bounds), flush_of=self._flush_of,
            archive_interval_factor=self._archive_interval_factor, may_remove=self._may_remove,
            large_values_beside=False,
        )  # fmt: skip
        self._lifecycle = Lifecycle()
        self._record: LocalMembership | None = None
        self._instance: Any = None
        self._parts: ServingParts | None = None
        self._status = NodeStatus(
            self._engine, self._java.gate, self._java.majority, metrics, self._lifecycle, lambda: self._parts,
            None if self._tls is None else Certificate(self._tls.file, self._tls.ends_ms),
            self._token_watch.files,
        )  # fmt: skip
        self._background: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the log bridge has stopped. `ArchiveError` if the node left in order and its
        root is still needed."""
        loop = asyncio.get_running_loop()
        on_signals(loop, (signal.SIGTERM, signal.SIGINT), self._stop.set, self._background_failed)
        bridge = start_task(LogBridge(self._java.queues, self._engine, self._is_alone).run(), raised_to_awaiter)
        when_done(bridge, lambda _: self._stop.set(), self._background_failed)
        error: BaseException | None = None
        http: HttpServer | None = None
        try:
            http = self._start_http()
            await self._run_until_end()
        except BaseException as raised:
            error = raised
            raise
        finally:
            await self._leave(self._last_phase(error), bridge)
            if http is not None:
                await http.close()
            self._pools.close()
            if self._parts is not None:
                self._parts.link_watch.close()
        self._check_archived()

    async def _run_until_end(self) -> None:
        """Start and serve until the node is told to stop. Raises the error that ends it."""
        serving = start_task(self._serve(), raised_to_awaiter)
        watching = start_task(self._watch(), raised_to_awaiter)
        stopped = start_task(self._stop.wait(), raised_to_awaiter)
        await asyncio.wait({serving, watching, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (serving, watching, stopped):
            task.cancel()
        for ended in await asyncio.gather(serving, watching, return_exceptions=True):
            if isinstance(ended, jpype.JException):
                self._check_running()  # its error says more than one of Java that follows from it
            if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
                raise ended

    def _last_phase(self, error: BaseException | None) -> Phase:
        """A serving member leaves in order if its disk has failed or its clock is wrong; after other errors it has failed."""
        in_order = error is None or (self._lifecycle.serves and isinstance(error, ClockSkew | LogFailed | StorageFull))
        return Phase.LEAVING if in_order and self._java.gate.lost() is None else Phase.FAILED

    async def _serve(self) -> None:
        """Start, and serve until this is cancelled or the member has to end."""
        self._begin(self._token_watch.run())
        parts = await self._start()
        loop = ServingLoop(
            self._options, parts, self._java.gate, self._status, self._lifecycle, self._engine.options.clock,
            self._pools.workers,
        )  # fmt: skip
        self._begin(loop.adopt())
        self._begin(parts.memory_limit.run())
        await loop.run()

    async def _watch(self) -> None:
        """A caller that waits for a stopped member would wait for ever, so poll the member's state."""
        for look in count():
            self._check_running()
            if look % _QUERY_LOOKS == 0:
                self._status.measure_queries()
            if self._parts is not None and self._lifecycle.serves:
                await self._parts.link_watch.check_links()
            await asyncio.sleep(_WATCH_SECONDS)

    def _check_running(self) -> None:
        if self._lifecycle.serves:
            member.check_whole(self._java.gate)
        if self._instance is not None:
            member.check_running(self._instance)

    def _is_alone(self) -> bool:
        """Whether no other node ever had a log of this cluster, as far as is known yet."""
        return self._record is None or self._record.alone

    def _archive_interval_factor(self) -> int:
        """Archive intervals that a small segment waits. While another member lives, it adopts the entries of a lost disk."""
        others = self._parts is not None and self._parts.serving.living > 1
        return _ARCHIVE_INTERVALS if others and self._options.file.backups else 1

    async def _may_remove(self) -> bool:
        return self._parts is not None and await self._parts.serving.nothing_is_missing(within=_FORGET_SECONDS)

    def _memory(self, context: StoreContext, place: Place, now: Now) -> RecoveryBuffer:
        return RecoveryBuffer(now, collects=self._is_alone())

    async def _start(self) -> ServingParts:
        options, context, workers = self._options, self._engine.options, self._pools.workers
        file = MembershipFile(context.disk, context.root, context.namespace, context.cluster, self._engine.node)
        alone = await workers.run(lambda: is_alone(options, self._engine, file.read()))
        record = self._record = LocalMembership(file, workers, options.node, str(options.address), alone=alone)
        figures = FiguresService(self._status, lambda: record.members, self._pools.scrapers)
        self._answer(self._java.figure_requests, figures.answer)
        config = member.configuration(options, context.archive_url, self._java)
        self._lifecycle.to(Phase.RECOVERING)
        await open_logs(self._engine)
        instance = self._instance = await workers.run(
            partial(member.start, config, options.file.volatile, self._tokens, self._tls)
        )
        self._java.leases.begin(instance)
        self._java.link_monitor.begin(instance)
        parts = self._parts = build_parts(
            options, self._engine, self._java, instance, record, self._bounds, self._lifecycle, self._pools
        )
        # First of all: this member publishes nothing under a name that may be another member's.
        await workers.run(parts.membership.check)
        self._answer(self._java.peer_requests, parts.peers.answer)
        self._answer(self._java.history_requests, parts.queues.answer)
        self._begin(parts.queues.run())
        new_root = has_new_root(self._engine, record)
        await parts.clock_bounds.begin(context.settings.max_skew_seconds, new_root=new_root)
        filled = await parts.start_up.run()
        await parts.peers.own_copy.clear()
        self._let_logs_retire(alone=record.alone)
        await parts.clock_bounds.rise(filled.newest)
        parts.clock_bounds.serve()
        gc.freeze()  # the objects that exist now live as long as the process; see `load_own`
        self._java.gate.open()
        self._lifecycle.to(Phase.COPYING)
        self._logger.info("serving", address=str(options.address), entries=filled.entries)
        if not record.alone:
            archive = partial(cluster_archive, self._engine)
            adopts = options.file.majority
            lost = LostTailCloser(self._engine, archive, parts.membership, self._pools.readers, adopts=adopts)
            self._begin(lost.run())
            self._begin(
                MissedDestroySearch(self._engine, parts.serving.all_archive, archive, self._pools.readers).run()
            )
        if filled.was_away:
            rejoin = Rejoin(
                instance, self._engine, parts.serving, parts.membership, parts.quorum_membership, parts.logged
            )
            self._begin(rejoin.run())
        return parts

    def _let_logs_retire(self, *, alone: bool) -> None:
        """Allow empty logs, those of destroyed maps, to be retired. On a node alone the next write creates the log again."""
        for business in self._engine.businesses.values():
            business.maintenance.retires = may_retire_log(self._engine, business, alone=alone)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` in the background until the node leaves."""
        task = start_task(work, self._background_failed)
        self._background.append(task)
        return task

    def _answer(self, requests: Any, answer: Answer) -> None:
        """Answer requests until the node leaves. They are closed when answering ends, so no caller waits for ever."""
        answering = self._begin(RequestLoop(requests, ThreadWorkers("kvwal-questions", 1), answer).run())
        when_done(answering, lambda _: requests.close(), self._background_failed)

    def _background_failed(self, error: BaseException) -> None:
        """Log the bug that has stopped a background task."""
        self._logger.error("something that this node does beside serving has stopped", exc_info=error)

    async def _leave(self, phase: Phase, bridge: asyncio.Task[None]) -> None:
        """Hand the partitions over, write the pending changes, archive the tail, and close the logs.

        A member whose memory has lost a part hands nothing over: Hazelcast is terminated.
        """
        served = self._lifecycle.serves
        self._lifecycle.to(phase)
        self._logger.info("leaving")
        for task in self._background:
            task.cancel()
        self._java.history_requests.close()
        self._java.peer_requests.close()
        self._java.figure_requests.close()
        await asyncio.gather(*self._background, return_exceptions=True)
        whole = self._java.gate.lost() is None
        if served and whole and self._parts is not None:
            await self._parts.serving.withdraw()
        self._java.gate.leave()
        if self._parts is not None:
            await self._parts.clock_bounds.end()
        if self._instance is not None:
            end = self._instance.shutdown if whole else self._instance.getLifecycleService().terminate
            await self._pools.workers.run(end)
        self._java.leases.close()
        self._java.link_monitor.close()
        self._java.queues.close()
        await asyncio.gather(bridge, return_exceptions=True)
        await self._engine.close(archive=self._engine.options.archive_named, within=_ARCHIVE_SECONDS)
        if lacking := self._unarchived():
            self._logger.warning(
                "the archive was not seen to hold all of this node's logs: keep its root", lacking=lacking
            )
        self._logger.info("left")
        if not bridge.cancelled() and (error := bridge.exception()) is not None:
            raise error

    def _unarchived(self) -> list[str]:
        """The logs whose tail may be on this disk only, each with the sequences of the tail."""
        engine = self._engine
        if not engine.options.archive_named:
            return []
        tails = []
        # A node that is stopped before it has opened all of its logs knows the others by their folders only.
        for name in sorted(engine.businesses) if self._parts is not None else engine.names():
            if name not in engine.businesses:
                tails.append(f"{name} (it was not opened)")
            elif tail := engine.businesses[name].unarchived:
                tails.append(f"{name} (sequences {tail[0]}–{tail[-1]})")
        return tails

    def _check_archived(self) -> None:
        """`ArchiveError` if only this disk has a tail: no member waits for a node that left in order, or adopts its entries."""
        if lacking := self._unarchived():
            raise ArchiveError(
                f"{self._options.node} has left, but the archive was not seen to hold the tail of {', '.join(lacking)}.",
                hint=f"Keep {self._options.root}: start the node again, or run `kvwal archive run` on it, before you remove it.",
            )

    def _start_http(self) -> HttpServer | None:
        if self._options.http is None:
            return None
        access = HttpAccess(self._options.http_token, closed=self._options.token is not None)
        served = application(self._status.ready, self._status.page, self._pools.scrapers, access)
        return HttpServer(served, self._options.http)

    def _change_tokens(self) -> None:
        """Have Hazelcast's connections take the tokens of the file. `HttpAccess` looks at its own source at each request."""
        if self._options.token is not None:
            member.change_tokens(self._tokens, self._options.token)

    def _flush_of(self, business: str) -> Flush:
        return flush_for(to_map(business), self._options.file.policies(), self._options.flush)

    def _store_options(self, metrics: Metrics) -> Options:
        options = self._options
        return Options(
            options.root, namespace=options.namespace, cluster=options.cluster, node=options.node,
            archive=archive_argument(options.archive), flush=options.flush, storage_options=None, settings=options.file.log,
            accept_clock=False, progress=None, metrics=metrics,
        )  # fmt: skip


def run(options: NodeOptions) -> None:
    """Run a node in this process until it has left. `ConfigError` if the node cannot be started with these options."""
    jvm.start(options.file.heap, options.file.hazelcast_jar, options.file.java_options)
    try:
        asyncio.run(_run(options))
    finally:
        jvm.java("kvwal.member.JsonLogFormatter").tellLeftOut()


async def _run(options: NodeOptions) -> None:
    await Service(options).run()
