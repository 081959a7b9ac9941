"""A node from its start to its end: recover, serve, and leave in order when it is told to."""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import jpype
import structlog

from kvwal.cluster.clocks import Limits
from kvwal.cluster.limits import Bounds, LimitedClock
from kvwal.cluster.maps import flush_for
from kvwal.cluster.memory import Passing
from kvwal.cluster.record import RecordFile
from kvwal.cluster.roster import Roster
from kvwal.cluster.voters import Voters
from kvwal.config import Flush
from kvwal.engine import Default, Engine, Options
from kvwal.errors import ClusterUnreachable, KvwalError, LogFailed, NotRecovered, StorageFull
from kvwal.node import jvm, member
from kvwal.node.adoption import Adoption
from kvwal.node.compare import Comparison
from kvwal.node.config import NodeOptions
from kvwal.node.glue import Glue
from kvwal.node.health import HttpServer, application
from kvwal.node.metrics import Metrics
from kvwal.node.own import is_alone, open_logs
from kvwal.node.past import Answering
from kvwal.node.recover import Recovery
from kvwal.ports.tasks import ThreadWorkers
from kvwal.structures.state import Now

_LOOK_SECONDS = 0.25
_FULL_SECONDS = 10.0
_ADOPT_AGAIN_SECONDS = 10.0
_ADOPT_SECONDS = 1.0
READY = "kvwal node {node} is ready at {address}"


class Phase(Enum):
    """What a node is doing."""

    STARTING = "starting"
    RECOVERING = "recovering"
    COPYING = "copying"
    """Clients are let in, but some keys are in fewer memories yet than they should be: whoever stops or kills another member now
    may make a hole."""
    SERVING = "serving"
    LEAVING = "leaving"


class Service:
    """One node. `run` returns when it has left."""

    def __init__(self, options: NodeOptions) -> None:
        self.phase = Phase.STARTING
        self._options = options
        self._logger = structlog.get_logger("kvwal").bind(node=options.node)
        self._stop = asyncio.Event()
        self._workers = ThreadWorkers("kvwal-node", 4)
        self._metrics = Metrics()
        self._bounds = Bounds()
        self._engine = Engine(
            self._store_options(), own_loop=True, memory=self._memory, hybrid=lambda: LimitedClock(self._bounds)
        )
        self._limits: Limits | None = None
        self._alone = True
        self._recovery: Recovery | None = None
        self._mailboxes = jvm.java("kvwal.node.Mailboxes")()
        self._gate = jvm.java("kvwal.node.Gate")()
        self._leases = member.leases()
        self._majority = member.majority(self._gate, self._leases)
        self._questions = jvm.java("kvwal.node.Questions")(self._gate, self._majority)
        self._instance: Any = None
        self._full_since = math.inf
        self._beside: list[asyncio.Task[None]] = []
        self._adoption: Adoption | None = None
        self._comparison: Comparison | None = None
        self._pump: asyncio.Task[None]

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until what carries writes to the log has stopped."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        glue = Glue(self._mailboxes, self._engine, self._flush(), self._is_alone)
        self._pump = loop.create_task(glue.run())
        self._pump.add_done_callback(lambda _: self._stop.set())
        http: HttpServer | None = None
        try:
            http = self._start_http()
            serving = loop.create_task(self._serve())
            stopped = loop.create_task(self._stop.wait())
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            stopped.cancel()
            for ended in await asyncio.gather(serving, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended
        finally:
            await self._leave()
            if http is not None:
                await http.close()
            self._workers.close()

    async def _serve(self) -> None:
        """Recover, and see to the others until this is cancelled, or memory has a hole."""
        recovery = await self._start()
        loop = asyncio.get_running_loop()
        if recovery.was_away and self._comparison is not None:
            self._beside.append(loop.create_task(self._comparison.run()))
        if self._adoption is not None:
            self._beside.append(loop.create_task(self._adopt(self._adoption)))
        while self._gate.lost() is None:
            try:
                await recovery.look()
                await self._say_ready()
                await self._go_if_failing(recovery)
            except ClusterUnreachable as error:
                self._logger.warning("the other members could not be asked", error=str(error))
            await asyncio.sleep(_LOOK_SECONDS)
        raise NotRecovered(
            f"{self._gate.lost()}; nobody is to take what is missing here for absent.",
            hint="Start this node again, and whoever else ended: what the logs hold is loaded anew.",
        )

    async def _say_ready(self) -> None:
        """Once every key is in as many memories as it should be."""
        if self.phase is not Phase.COPYING:
            return
        copied = jvm.java("kvwal.node.Members").areCopied
        if await self._workers.run(partial(copied, self._instance, self._options.file.backups)):
            self.phase = Phase.SERVING
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

    async def _go_if_failing(self, recovery: Recovery) -> None:
        """A node whose keys cannot be written leaves, if those that stay can serve without it: they take its keys over."""
        failed, full = self._failed(), self._full()
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
        return self._alone if self._recovery is None else self._recovery.alone

    def _memory(self, now: Now) -> Passing:
        return Passing(now, collects=self._alone)

    async def _start(self) -> Recovery:
        options, around = self._options, self._engine.options
        file = RecordFile(around.disk, around.root, around.namespace, around.cluster, self._engine.node)
        self._alone = await self._workers.run(lambda: is_alone(options, self._engine, file.read()))
        glue = (self._mailboxes, self._gate, self._leases, self._majority, self._questions)
        config = member.configuration(options, around.archive_url, *glue)
        self.phase = Phase.RECOVERING
        await open_logs(self._engine, self._flush())
        self._instance = await self._workers.run(partial(member.start, config))
        self._leases.begin(self._instance)
        roster = Roster(self._instance, jvm.java("kvwal.node.Limits")(self._instance), self._leases)
        await self._workers.run(
            roster.check
        )  # before it tells the others anything, under a name that may be another one's
        voters = Voters(roster, options.node, self._majority.expect if options.file.majority else lambda names: None)
        make_loader = partial(jvm.java("kvwal.node.Loader"), self._instance)
        self._recovery = Recovery(
            options, self._engine, roster, voters, make_loader, self._workers, file, self._gate, alone=self._alone
        )
        adopts = partial(jvm.java("kvwal.node.Adoption"), self._instance)
        self._adoption = Adoption(
            roster, lambda: voters.current if options.file.majority else None, adopts, self._recovery.all_archive,
            self._recovery.objects, (around.namespace, around.cluster), around.clock, self._workers,
        )  # fmt: skip
        self._comparison = Comparison(self._instance, self._engine, self._recovery, roster, voters)
        answering = Answering(
            self._questions, self._engine, self._recovery, self._workers, ThreadWorkers("kvwal-questions", 1)
        )
        self._beside.append(asyncio.get_running_loop().create_task(answering.run()))
        self._beside[-1].add_done_callback(lambda _: self._questions.close())  # nobody may wait where nobody answers
        self._limits = Limits(roster, self._bounds, self._gate.fence, around.clock)
        await self._limits.begin(around.settings.max_skew_seconds)
        loaded = await self._recovery.run()
        await self._limits.rise(self._recovery.newest)
        self._limits.serve()
        gc.freeze()  # what is here now stays; see `load_own`
        self._gate.open()
        self.phase = Phase.COPYING
        self._logger.info("serving", address=str(self._options.address), entries=loaded)
        return self._recovery

    async def _leave(self) -> None:
        """Hand the partitions over, write what is on its way, archive the tail, and end the logs cleanly."""
        served, self.phase = self.phase in (Phase.COPYING, Phase.SERVING), Phase.LEAVING
        self._logger.info("leaving")
        for task in self._beside:
            task.cancel()
        self._questions.close()
        await asyncio.gather(*self._beside, return_exceptions=True)
        whole = self._gate.lost() is None
        if served and whole and self._recovery is not None:
            await self._recovery.withdraw()
        self._gate.leave()
        if self._limits is not None:
            await self._limits.end()
        if self._instance is not None:
            await self._workers.run(
                self._instance.shutdown if whole else self._instance.getLifecycleService().terminate
            )
        self._leases.close()
        self._mailboxes.close()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._engine.close(archive=self._options.archive not in (None, "none"))
        self._logger.info("left")
        if not self._pump.cancelled() and (error := self._pump.exception()) is not None:
            raise error

    def _start_http(self) -> HttpServer | None:
        if self._options.http is None:
            return None
        return HttpServer(application(self._ready, self._metrics_page), self._options.http)

    def _ready(self) -> tuple[bool, dict[str, object]]:
        failed = self._failed()
        found: dict[str, object] = {"phase": self.phase.value, "failed": failed}
        if self._recovery is not None:
            found |= self._recovery.told
        if self._adoption is not None and self._adoption.partitions:
            found["adopting"] = {"lost": self._adoption.lost, "partitions": self._adoption.partitions}
        if full := self._full():
            found["full"] = full
        if (lost := self._gate.lost()) is not None:
            found["lost"] = str(lost)
        return self.phase is Phase.SERVING and not failed and lost is None, found

    def _failed(self) -> dict[str, str]:
        """Logs that take nothing more, and why."""
        open_ones = self._engine.businesses.items()
        return {name: str(found.log.writer.failed) for name, found in open_ones if found.log.writer.failed is not None}

    def _full(self) -> dict[str, str]:
        """Logs whose last write found no room on the disk."""
        open_ones = self._engine.businesses.items()
        return {name: str(found.log.writer.full) for name, found in open_ones if found.log.writer.full is not None}

    def _gauges(self) -> dict[str, tuple[str, float]]:
        serving = self.phase is Phase.SERVING
        found = {"recovered": ("1 when memory holds all that the logs do.", float(serving))}
        if self._instance is not None and self.phase is not Phase.LEAVING:
            found["cluster_members"] = (
                "Members of the cluster.",
                float(self._instance.getCluster().getMembers().size()),
            )
        if self._limits is not None:
            found["clock_skew_seconds"] = (
                "How far ahead of this clock the clock of that member is that is furthest off.",
                self._limits.skew_seconds,
            )
        adopting = 0 if self._adoption is None else self._adoption.partitions
        found["adopting"] = (
            "Partitions of lost members that are yet to be written to the logs of others.",
            float(adopting),
        )
        return found

    def _metrics_page(self) -> bytes:
        stats = self._engine.stats()
        gauges = self._gauges()
        if stats["disk"] is not None:
            usable = float(stats["disk"]["usable_bytes"])
            gauges["disk_usable_bytes"] = ("Bytes that may still be written before writes are refused.", usable)
        return self._metrics.page(gauges, stats["businesses"])

    def _flush(self) -> Callable[[str], Flush]:
        return partial(flush_for, patterns=self._options.file.policies(), otherwise=self._options.flush)

    def _store_options(self) -> Options:
        options = self._options
        return Options(
            options.root, namespace=options.namespace, cluster=options.cluster, node=options.node,
            archive=_archive(options.archive), flush=options.flush, storage_options=None, settings=options.file.log,
            accept_clock=False, progress=None, meter=self._metrics,
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
