"""A member that joins others whose memory has lost something. The gate is the real one, in a JVM.

As a program it says in its last line for each case how that ended, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kvwal.cluster.bootstrap import FilledMemory, Status
from kvwal.cluster.membership import LocalMembership, MembershipFile
from kvwal.cluster.quorum import Quorum, first
from kvwal.errors import ClusterUnreachable, NotRecovered
from kvwal.node import jvm
from kvwal.node.adapters.archive_requests import ArchiveRequests
from kvwal.node.adapters.live_members import Peer
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.adapters.start_up import StartUp
from kvwal.node.adapters.status_exchange import StatusExchange
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.ports.clock import SystemClock
from kvwal.ports.disk import OS_DISK
from kvwal.ports.tasks import ThreadWorkers

OLD, NEW = "node-old", "node-new"
GONE = "memory lost partition 7"


class Others:
    """Stands for the cluster, and what it agreed on: one member serves, and this one comes back."""

    def __init__(self, *, there: list[str], living: list[str], answers: bool = True) -> None:
        """`there` saw memory being filled, `living` are there now; with `answers` false the first question gets none."""
        self.own = self._peer(NEW)
        self.now: Quorum | None = first([OLD, NEW])
        self.asked = lambda: None
        self._recovered = FilledMemory(by=OLD, living=there)
        self._living = living
        self._answers = answers
        self._told: dict[str, Status] = {}
        for name in living:
            self.tell(Status(member=name, name=name, address=name, votes=1, expected={OLD: OLD, NEW: NEW}))

    @staticmethod
    def _peer(name: str) -> Peer:
        return Peer(name, name, name, "", "")

    def recovered(self) -> FilledMemory:
        if not self._answers:
            self._answers = True
            raise ClusterUnreachable("the other members could not be asked.", hint="It is asked again.")
        return self._recovered

    def living(self) -> list[Peer]:
        return [self._peer(name) for name in self._living]

    def names(self) -> set[str]:
        return set(self._living)

    def statuses(self) -> list[Status]:
        self.asked()
        return list(self._told.values())

    def tell(self, status: Status) -> None:
        self._told[status.name] = status

    def quorum(self) -> Quorum | None:
        return self.now

    def compare_and_set_quorum(self, old: Quorum | None, new: Quorum) -> bool:
        return False


async def joined(members: Others, gate: Any) -> str:
    """How it ends."""
    archived = []

    async def archive() -> None:
        archived.append(True)

    others: Any = members
    options: Any = SimpleNamespace(
        node=NEW, address=NEW, members=[], without=[], file=SimpleNamespace(backups=1), archive=None
    )
    engine: Any = SimpleNamespace(
        options=SimpleNamespace(clock=SystemClock(), archive_url=None, storage_options=None),
        archive=archive,
        names=lambda: {"jobs"},
    )
    workers = ThreadWorkers("test", 1)
    with tempfile.TemporaryDirectory() as folder:
        file = MembershipFile(OS_DISK, Path(folder), "default", "default", NEW)
        quorum_membership = QuorumMembership(others, NEW, lambda names: None)
        record = LocalMembership(file, workers, NEW, NEW, alone=False)
        statuses = StatusExchange(options, others, quorum_membership, record, ArchiveRequests(NEW, archive), workers)
        lifecycle = Lifecycle()
        lifecycle.to(Phase.RECOVERING)
        fill: Any = None
        start_up = StartUp(
            options, engine, others, quorum_membership, record, statuses, fill, lambda: None, gate, lifecycle, workers,
            lambda node: 0,
        )  # fmt: skip
        try:
            result = await start_up.run()
        except NotRecovered as error:
            return f"NotRecovered: {error}"
        finally:
            workers.close()
    compares = "compares" if result.was_away else "compares nothing"
    return f"serves, {compares}" + (", has archived" if archived else "")


def cases() -> dict[str, str]:
    """Each by its name."""
    gate = jvm.java("kvwal.node.ReadyGate")
    found = {}

    def play(name: str, others: Others, *happened: str, while_joining: bool = False) -> None:
        made = gate()
        for what in happened:
            getattr(made, what)(GONE)
        if while_joining:
            others.asked = lambda: made.lose(GONE)
        found[name] = asyncio.run(joined(others, made))

    both = [OLD, NEW]
    play("nothing was lost", Others(there=[OLD], living=both))
    play("lost before it knew that memory is whole", Others(there=[OLD], living=[NEW]), "lose")
    play("lost before memory was filled", Others(there=both, living=both), "lose")
    play("lost before it met those that have all", Others(there=[OLD], living=both), "lose", "giveUp")
    play("lost while it joins", Others(there=[OLD], living=[NEW]), while_joining=True)
    play("the first question has no answer", Others(there=[OLD], living=both, answers=False))
    return found


if __name__ == "__main__":
    jvm.start("64m", None, [])
    json.dump(cases(), sys.stdout)
