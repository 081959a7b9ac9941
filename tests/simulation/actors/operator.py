"""What people do by hand, with commands that are processes of their own: rewrite, gc, restore, take over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvwal.entry import Entry
from kvwal.errors import ArchiveDamaged, ArchiveError, ArchiveGap, ConfigError, CorruptLog, KvwalError
from kvwal.history.restore.restore import RestorePorts, RestoreReport, restore_through
from kvwal.log.files.names import log_folder
from kvwal.log.reader import entry_decoder
from kvwal.log.recovery import RecoveryTarget, recover
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction as rewrite
from kvwal_archive.objects import open_objects
from tests.simulation.checker import check_state
from tests.simulation.history import Violation, fold
from tests.simulation.ledger import Ledger
from tests.simulation.machine.bucket import URL
from tests.simulation.machine.disk import NODE, ROOT, Machine
from tests.simulation.machine.process import Process
from tests.simulation.profile import Profile
from tests.simulation.world import World

ELSEWHERE = "elsewhere"
_TRIES = 8


class Operator:
    """One person at one moment; each try is a process."""

    def __init__(self, world: World, profile: Profile, name: str) -> None:
        self.world = world
        self.profile = profile
        self.name = name
        self.chance = world.chance(name)
        self.tries = 0

    async def rewrite(self) -> None:
        """`kvwal archive rewrite` and `gc`, of every business, perhaps killed in the middle."""
        process = self._process("rewrite", self.world.machine, may_die=True)
        self.world.rewrites += 1
        await self._attempt(process, lambda: self._rewrite_all())

    def _rewrite_all(self) -> None:
        objects = open_objects(URL)
        settings = self.profile.settings
        for business in self.profile.businesses:
            place = Place("default", "local", business, NODE)
            now = self.world.clock.wall_ms()
            force = self.chance.random() < 0.6
            made = rewrite.rewrite(objects, place, now_ms=now, history_ms=self.profile.history_ms, force=force)
            gone = rewrite.gc(objects, place, now_ms=now, grace_ms=int(settings.gc_grace_seconds * 1000))
            if made:
                self.world.met("an operator's rewrite made objects")
            if gone:
                self.world.met("an operator's gc removed objects")

    async def restore_elsewhere(self) -> None:
        """Restore to another machine under another name, and compare with what the archive confirmed."""
        machine = Machine(self.world)
        confirmed = {name: ledger.confirmed for name, ledger in self.world.ledgers.items()}
        report = await self._restored_elsewhere(machine)
        if report is None:
            return
        self.world.met("restored elsewhere")
        for name, entries in self._read_back(machine, report).items():
            ledger = self.world.ledgers[name]
            self._compare(ledger, entries, report.positions[name].get(NODE, 0), confirmed[name])
            ledger.restored(entries, machine.memory, _folder_elsewhere(name))

    async def _restored_elsewhere(self, machine: Machine) -> RestoreReport | None:
        for attempt in range(2):
            process = self._process("restore", machine, may_die=attempt == 0)
            try:
                done = await self._attempt(process, lambda process=process: self._restore(process, take_over=False))
            except ConfigError as error:
                if "there is nothing" in str(error) or (attempt and "has entries of" in str(error)):
                    return None
                raise
            if done is not None:
                found: RestoreReport = done
                return found
        return None

    def _read_back(self, machine: Machine, report: RestoreReport) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for name in report.entries:
            entries = found[name] = []
            target = RecoveryTarget(entries.extend, entries.clear)
            recover(machine.memory, _folder_elsewhere(name), target, entry_decoder())
        return found

    def _compare(self, ledger: Ledger, entries: list[Entry], last: int, confirmed: int) -> None:
        if last < confirmed:
            raise Violation(f"{ledger.name}: the archive confirmed {confirmed} entries, and a restore found {last}")
        txns = [*ledger.log, *ledger.since][: ledger.up_to(last)]
        horizon = self.world.horizon(ledger)
        check_state(fold(txns), ledger.found_in(entries), horizon, f"{ledger.name}: in a restore up to sequence {last}")

    async def take_over(self) -> None:
        """Go on with the node's log on a new disk, from the archive alone; tried until it succeeds."""
        for attempt in range(_TRIES):
            if attempt == _TRIES - 2:
                self.world.bucket.trouble, self.world.bucket.away = 0.0, False
            process = self._process("take-over", self.world.machine, may_die=attempt == 0)
            try:
                done = await self._attempt(process, lambda process=process: self._restore(process, take_over=True))
            except ConfigError as error:
                if attempt and "has entries of" in str(error):
                    self.world.met("a take-over was killed when all was done")
                    return
                if "there is nothing" not in str(error) and "which node" not in str(error):
                    raise
                self.world.happened("nothing there", error)
                return
            if done is not None:
                self.world.met("a take-over")
                return
        raise Violation("a take-over never succeeded")

    def _restore(self, process: Process, *, take_over: bool) -> RestoreReport:
        return restore_through(
            RestorePorts(process.disk, self.world.clock), URL, ROOT, namespace="default", cluster="local",
            node=NODE if take_over else ELSEWHERE, at=None, take_over=take_over, storage_options=None, progress=None,
        )  # fmt: skip

    def _process(self, doing: str, machine: Machine, *, may_die: bool) -> Process:
        self.tries += 1
        process = self.world.start(f"{self.name}.{self.tries}", doing, machine)
        if may_die and self.chance.random() < 0.5:
            process.last_call = self.chance.randint(1, 40)
        return process

    async def _attempt(self, process: Process, work: Callable[[], Any]) -> Any:
        """What `work` gives; None if it was killed, or failed because the bucket did."""
        job = process.call(work)
        ended = self.world.loop.create_task(process.ended.wait())
        await asyncio.wait({job.future, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not job.future.done() or job.future.cancelled():
            return None
        error = job.future.exception()
        process.alive = False
        if error is None:
            return job.future.result() or True
        if isinstance(error, (ArchiveDamaged, ArchiveGap, CorruptLog)) or not isinstance(error, KvwalError | OSError):
            raise error
        if isinstance(error, ArchiveError) and "there is nothing" in str(error):
            raise ConfigError(str(error)) from error
        if isinstance(error, ConfigError):
            raise error
        self.world.happened("failed", error)
        return None


def _folder_elsewhere(name: str) -> Path:
    """The folder of the log that a restore of a business makes elsewhere."""
    return log_folder(ROOT, Place("default", "local", name, ELSEWHERE))
