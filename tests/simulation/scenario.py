"""One seed from beginning to end: a store is opened, used, disturbed and ended, again and again, and judged each time."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

from kvwal import aio
from kvwal.errors import ArchiveError, ClockSkew, ConfigError, KvwalError, StorageFull
from kvwal.store.engine import Engine
from kvwal.store.open_business import OpenBusiness
from tests.simulation.actors.clients import Client
from tests.simulation.actors.disturber import DAMAGE, Disturber
from tests.simulation.actors.lasting_reader import LastingReader
from tests.simulation.actors.operator import Operator
from tests.simulation.contents.client import ContentClient
from tests.simulation.contents.ledger import ContentLedger
from tests.simulation.contents.leftovers import unnamed_files
from tests.simulation.history import Violation
from tests.simulation.ledger import Ledger, WatchedMemory
from tests.simulation.machine.disk import ROOMY, Machine
from tests.simulation.machine.ports import options
from tests.simulation.machine.process import Process
from tests.simulation.profile import FILED, QUEUED, Profile
from tests.simulation.queues.client import QueueClient
from tests.simulation.queues.ledger import QueueLedger
from tests.simulation.values.damage import Damage
from tests.simulation.values.slow_reader import read_slowly
from tests.simulation.world import World

LEDGERS: dict[str, type[Ledger]] = {QUEUED: QueueLedger, FILED: ContentLedger}
_TRIES = 6
_ENDINGS = ("close", "kill", "power", "call: kill", "call: power", "lost disk")


class Scenario:
    """`ledgers` are the records of the businesses, by name."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.profile = Profile(world.chance("profile"))
        self.chance = world.chance("scenario")
        world.met(f"shape: {self.profile.shape}")
        self.ledgers = {name: LEDGERS.get(name, Ledger)(world, name) for name in self.profile.businesses}
        world.ledgers = self.ledgers
        self.reader = LastingReader(world)
        world.horizon = self._horizon
        world.moves_values = self.profile.inline_bytes is not None
        world.bucket.trouble = self.profile.trouble
        world.bucket.etags = self.profile.etags

    async def run(self) -> None:
        """All openings, and a last one on which nothing goes wrong and everything is looked at."""
        for number in range(1, self.profile.openings + 1):
            await self._opening(number)
        self._mend_everything()
        await self._last_look()
        for process in self.world.processes:
            self.world.kill(process, "the end")
        if self.world.problems:
            raise Violation("; ".join(self.world.problems))

    async def _opening(self, number: int) -> None:
        ending = self._choose_ending()
        process = self.world.start(f"store-{number}", "opening")
        process.ledgers = dict(self.ledgers)
        if ending.startswith("call"):
            process.last_call = self.chance.choice([self.chance.randint(1, 60), self.chance.randint(1, 600)])
        life = Life(self, process, number, closes=ending == "close")
        task = process.start(life.run())
        killed = self.world.loop.create_task(process.ended.wait())
        await asyncio.wait({task, killed}, return_when=asyncio.FIRST_COMPLETED)
        if process.alive:
            task.result()
        killed.cancel()
        await self._end(process, ending, life)

    def _choose_ending(self) -> str:
        endings = _ENDINGS if self.profile.loses_disk else _ENDINGS[:-1]
        return self.chance.choice(endings)

    async def _end(self, process: Process, ending: str, life: Life) -> None:
        """What came of it: killed already, or ended as was chosen."""
        clean = process.alive and ending == "close"
        for name, business in life.businesses.items():
            self.ledgers[name].confirmed = max(self.ledgers[name].confirmed, business.maintenance.archived)
        self.world.kill(process, "its end" if clean else ending)
        for business in life.businesses.values():
            business.contents.files.forked()  # a stream that garbage collection finds later belongs to a dead process
        if ending == "lost disk":
            await self._take_over()
        elif ending.endswith("power"):
            self.world.cut_power(self.world.chance(f"power {process.name}"))
            self.world.met("power cut")
            if self.profile.flush != "sync":
                for ledger in self.ledgers.values():
                    ledger.may_lose_after(ledger.durable)
        elif not clean:
            self.world.met("kill")
        self.reader.look()
        await asyncio.sleep(self.chance.choice([0.0, 0.0, 1.0]))

    async def _take_over(self) -> None:
        """The disk is gone with all that was on it; another node goes on from the archive under the same name."""
        for ledger in self.ledgers.values():
            ledger.may_lose_after(ledger.up_to(ledger.confirmed))
        if any(not self.world.bucket.has_log_of(name) for name in self.ledgers):
            self.world.end_all("nothing would fence what still runs there")
            self.world.bucket.cut_off.add(self.world.machine)
        self.world.machine = Machine(self.world)
        self.world.met("a lost disk")
        await Operator(self.world, self.profile, "take-over").take_over()
        for ledger in self.ledgers.values():
            ledger.compacted = self._horizon(ledger)

    def _horizon(self, ledger: Ledger) -> int:
        """Below which timestamp a reader may miss what is not the latest: a rewrite, or without an archive a checkpoint."""
        if not self.profile.archive:
            return ledger.last + 1 if self.world.checkpoints else 0
        return max(0, self.world.clock.highest - self.profile.history_ms) << 16 if self.world.rewrites else 0

    def _mend_everything(self) -> None:
        self.world.bucket.trouble = 0.0
        self.world.bucket.away = False
        self.world.machine.capacity = ROOMY
        self.world.happened("MENDED", "no more faults")

    async def _last_look(self) -> None:
        process = self.world.start("store-last", "opening")
        process.ledgers = dict(self.ledgers)
        life = Life(self, process, self.profile.openings + 1, closes=True, quiet=True)
        await process.start(life.run())
        for ledger in self.ledgers.values():
            ledger.settle()


class Life:
    """A store between its opening and its end. `businesses` are the open ones."""

    def __init__(self, scenario: Scenario, process: Process, number: int, *, closes: bool, quiet: bool = False) -> None:
        self.scenario = scenario
        self.world = scenario.world
        self.profile = scenario.profile
        self.process = process
        self.number = number
        self.closes = closes
        self.quiet = quiet
        self.chance = self.world.chance(f"life {number}")
        self.businesses: dict[str, OpenBusiness] = {}

    async def run(self) -> None:
        store = await self._open()
        self.process.doing = "serving"
        if self.quiet:
            await self._look(store)
        else:
            await self._serve_disturbed(store)
        if self.closes:
            self.process.doing = "closing"
            await self._close(store)

    async def _open(self) -> aio.Store:
        """Open the store and all its businesses; what fails for a reason that the simulation made is tried again."""
        accept = False
        for _ in range(_TRIES):
            store = await self._store(accept)
            try:
                for name, ledger in self.scenario.ledgers.items():
                    ledger.opening()
                    business = await store._engine_now().business(name)
                    self._opened(ledger, business)
            except ClockSkew:
                self.world.met("refused: ClockSkew")
                accept = True
            except (ConfigError, StorageFull) as error:
                self._check_excuse(error)
                self.scenario.world.machine.capacity = ROOMY
            else:
                return store
            await self._give_up(store)
        raise Violation(f"{self.process.name} could not be opened in {_TRIES} tries")

    async def _store(self, accept: bool) -> aio.Store:
        given = options(
            self.process, self.profile, archive=self.profile.archive, accept_clock=accept, is_quiet=self.quiet
        )
        store = aio.Store(given)
        store._engine = Engine(store._options, own_loop=self.profile.own_loop, memory=WatchedMemory)
        return store

    def _opened(self, ledger: Ledger, business: OpenBusiness) -> None:
        self.businesses[ledger.name] = business
        ledger.opened(business.hybrid.last)
        if business.log.recovered.torn is not None:
            self.world.met("a torn tail was cut")

    def _check_excuse(self, error: KvwalError) -> None:
        """An opening may fail because a call of the disk did, or because it is full."""
        cause = error.__cause__
        if not (isinstance(cause, OSError) and cause.errno in (errno.EIO, errno.ENOSPC)):
            raise error
        self.world.met("an opening failed, and was tried again")

    async def _give_up(self, store: aio.Store) -> None:
        await self._close(store)
        self.businesses.clear()

    async def _serve_disturbed(self, store: aio.Store) -> None:
        """Clients, and a disturber beside them for as long as they are there."""
        disturbing = self.world.loop.create_task(Disturber(self, store).run())
        disturbing.add_done_callback(self._disturbed)
        try:
            await self._serve(store)
        finally:
            disturbing.cancel()

    def _disturbed(self, disturbing: asyncio.Task[None]) -> None:
        """What a disturber finds wrong, in a restore that it compares for instance, is wrong."""
        if not disturbing.cancelled() and (error := disturbing.exception()) is not None:
            self.world.problems.append(f"{type(error).__name__}: {error}")

    async def _serve(self, store: aio.Store) -> None:
        work = [
            self._client(f"client {self.number}.{name}.{number}", name).run(store, self.businesses[name])
            for name in self.businesses
            for number in range(self.profile.clients)
        ]
        await asyncio.gather(*work)

    def _client(self, title: str, name: str) -> Client | QueueClient:
        ledger = self.scenario.ledgers[name]
        if isinstance(ledger, QueueLedger):
            return QueueClient(title, self.process, ledger, self.profile)
        if isinstance(ledger, ContentLedger):
            return ContentClient(title, self.process, ledger, self.profile)
        return Client(title, self.process, ledger, self.profile)

    async def _look(self, store: aio.Store) -> None:
        """Everything that can be asked, on a quiet day; then archive, restore elsewhere, and compare."""
        for name in self.scenario.ledgers:
            client = self._client(f"last {name}", name)
            if self.profile.inline_bytes is not None:
                await client.run(store, self.businesses[name])
            if isinstance(client, QueueClient):
                await client.look(store)
                continue
            if isinstance(client, ContentClient):
                await client.look(store, self.businesses[name])
                continue
            client.map, client.business = store.map(name), self.businesses[name]
            await client.scan()
            await client.count()
            for number in range(self.profile.keys):
                client._key = lambda number=number: f"k{number}"  # type: ignore[method-assign]
                await client.get()
        if self.profile.archive and self.chance.random() < 0.3:
            await self._look_at_the_archive(store)
        await self._try(store.checkpoint)
        if self.profile.inline_bytes is not None and not self.profile.expiry:
            for name in sorted(self.businesses.keys() - {FILED, QUEUED}):
                await self._read_slowly(store, name)
        for name, business in self.businesses.items():
            if name == FILED or self.profile.inline_bytes is not None:
                await self._look_for_unnamed(store, business)
        if self.profile.inline_bytes is not None:
            for name, business in self.businesses.items():
                await Damage(self.world, self.scenario.ledgers[name], store, business).happens(self.chance)

    async def _read_slowly(self, store: aio.Store, name: str) -> None:
        async def clean() -> None:
            for _ in range(3):
                await self._try(store.checkpoint)

        await read_slowly(self.world, self.scenario.ledgers[name], store, self.businesses[name], clean)

    async def _look_for_unnamed(self, store: aio.Store, business: OpenBusiness) -> None:
        """Bytes that nothing names go with the next two checkpoints, on a quiet day."""
        left: set[str] | None = None
        for _ in range(3):
            if self.profile.archive:
                await self._try(store.archive)
            await self._try(store.checkpoint)
            unnamed = unnamed_files(self.world.machine.memory, business)
            left = unnamed if left is None else left & unnamed
        if left:
            raise Violation(f"nothing names these claim files, and they stay: {sorted(left)}")
        if "clean" in business.maintenance.failing.failures:
            raise Violation(
                f"a cleaning failed on a quiet day: {business.maintenance.failing.failures['clean'].reason}"
            )

    async def _look_at_the_archive(self, store: aio.Store) -> None:
        """Everything that was there is confirmed, and a restore brings it. The sweeper may write on meanwhile."""
        there = {name: business.log.appender.next_sequence - 1 for name, business in self.businesses.items()}
        await self._try(store.archive)
        for name, business in self.businesses.items():
            self.scenario.ledgers[name].confirmed = business.maintenance.archived
            if business.maintenance.archived < there[name]:
                raise Violation(
                    f"{name}: archive() returned, and only {business.maintenance.archived} entries are confirmed"
                )
        await Operator(self.world, self.profile, "last restore").restore_elsewhere()

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        """An archiver that outlived an earlier store may still be at the same files: then it is simply tried again."""
        for _ in range(_TRIES):
            try:
                return await work()
            except ArchiveError as error:
                if isinstance(error, DAMAGE):
                    raise
                self.world.met("maintenance by hand was tried again")
        return await work()

    async def _close(self, store: aio.Store) -> None:
        try:
            await store.close()
        except (KvwalError, OSError) as error:
            self.world.met(f"a close failed: {type(error).__name__}")
            self.world.happened("close failed", error)
            return
        for name, business in self.businesses.items():
            if business.log.writer.failed is None:  # a log that has failed ends as it is
                self.scenario.ledgers[name].is_durable()
