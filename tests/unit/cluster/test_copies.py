"""Memory from the disks of all members while the archive is away: when they are enough, and what they tell."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from kvwal.cluster.bootstrap import Status, archive_is_unreachable, why_disks_may_lack_writes
from kvwal.cluster.requests import CopyQuestion, PartQuestion
from kvwal.entry import Entry
from kvwal.errors import ArchiveError
from kvwal.key_class import DROPPED
from kvwal.log.submission import Submission, size_of
from kvwal.node.adapters.live_members import Peer
from kvwal.node.requests import log_copies as copies
from kvwal.node.requests.log_copies import Copies, OwnCopy
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.engine import Engine
from kvwal_archive.objects import Objects
from kvwal_archive.restore import restore_batches
from tests.support.archive.archiver import InProcess
from tests.support.cluster.members import run
from tests.support.disk.faults import FakeClock, open_aio

NAMES = ("node-1", "node-2", "node-3")


def told(name: str, **more: Any) -> Status:
    """What a member says that has recovered its logs, has its old disk, and cannot reach the archive."""
    expected = {other: f"h:{other}" for other in NAMES}
    known: dict[str, Any] = {"expected": expected, "was_there": True, "looked": True, "away": True}
    return Status(member=name, name=name, address=f"h:{name}", **(known | more))


def all_told(**of_the_last: Any) -> list[Status]:
    return [told(NAMES[0]), told(NAMES[1]), told(NAMES[2], **of_the_last)]


def test_the_disks_are_enough_when_every_writer_is_there() -> None:
    assert archive_is_unreachable(all_told(), NAMES)
    assert why_disks_may_lack_writes(all_told(), NAMES) == []


@pytest.mark.parametrize(
    ("differs", "why"),
    [
        ({"left": {"node-4": ""}}, "node-4 wrote is in the archive only"),
        ({"without": ["node-4"]}, "node-4 wrote is in the archive only"),
        ({"was_there": False}, "root of node-3 has no record"),
    ],
)
def test_a_log_that_is_not_on_these_disks_is_waited_for(differs: dict[str, Any], why: str) -> None:
    [said] = why_disks_may_lack_writes(all_told(**differs), NAMES)
    assert why in said


def test_somebody_must_have_looked_into_the_archive_once() -> None:
    statuses = [told(name, looked=False) for name in NAMES]
    assert why_disks_may_lack_writes(statuses, NAMES) == ["no member has seen yet which nodes have logs in the archive"]
    assert not why_disks_may_lack_writes([*statuses[:2], told(NAMES[2])], NAMES)


def test_the_archive_is_not_away_while_a_member_is_missing_or_still_archives() -> None:
    assert not archive_is_unreachable(all_told()[:2], NAMES[:2])
    assert not archive_is_unreachable(all_told(away=False), NAMES)
    assert archive_is_unreachable(all_told(away=False, archived=True), NAMES)
    assert not archive_is_unreachable([told(name, away=False, archived=True) for name in NAMES], NAMES)


class Members:
    """Stores on one loop that stand for nodes; what one asks another goes through no network."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        more: dict[str, Any] = {"archive": folder / "archive", "start_archiver": lambda: InProcess("")}
        self.stores = {name: open_aio(folder / name, clock=self.clock, node=name, **more) for name in NAMES}
        self.workers = ThreadWorkers("test", 4)
        self.own: dict[str, OwnCopy] = {}

    async def _ask(self, peer: Peer, question: CopyQuestion | PartQuestion, within: float) -> bytes:
        return await self.own[peer.name].answer(question)

    async def gather(self) -> Objects:
        """At the first."""
        engines = {name: cast("Engine", store._engine) for name, store in self.stores.items()}
        self.own = {name: OwnCopy(engine, self.workers) for name, engine in engines.items()}
        first = Copies(self.own[NAMES[0]], self._ask, engines[NAMES[0]], self.workers)
        return await first.gather(NAMES[0], [Peer(name, name, "", "", "") for name in NAMES])


async def submitted(members: Members, name: str, *entries: Entry) -> None:
    """Appended to the log of `jobs` of a member."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    business = await cast("Engine", members.stores[name]._engine).business("jobs")
    await business.submit_soon(Submission(list(entries), size_of(list(entries)), future))
    await future


def live(objects: Objects, business: str) -> dict[bytes, bytes]:
    rows = [
        row for batch in restore_batches(objects, "default", "local", business).batches for row in batch.to_pylist()
    ]
    return {row["key"]: row["value"] for row in rows if not row["deleted"]}


def test_the_latest_of_all_disks_is_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From snapshots, sealed segments and tails; the newest of a key counts, whichever member wrote it, deletes too."""
    monkeypatch.setattr(copies, "_PART_BYTES", 1000)

    async def work(members: Members) -> None:
        one, two, three = (members.stores[name].map("jobs") for name in NAMES)
        for number in range(300):
            await (one, two, three)[number % 3].put(f"job-{number}", "x" * 20)
        await one.put("twice", "old")
        await three.put("gone", "there")
        members.clock.ms += 1
        await two.put("twice", "new")
        await one.delete("gone")
        await members.stores["node-2"].checkpoint()
        await two.put("after", "it")
        await members.stores["node-3"].map("other").put("a", "b")
        found = live(objects := await members.gather(), "jobs")
        assert len(found) == 302
        assert found[b"twice"] == b"new"
        assert found[b"after"] == b"it"
        assert b"gone" not in found
        assert live(objects, "other") == {b"a": b"b"}
        assert live(await members.gather(), "jobs") == found
        await members.own["node-1"].clear()
        assert not (tmp_path / "node-1" / copies.FOLDER).exists()

    run(partial(Members, tmp_path), work)


def test_a_delete_that_a_snapshot_left_out_is_not_taken_for_never_made(tmp_path: Path) -> None:
    async def work(members: Members) -> None:
        one, two = (members.stores[name].map("jobs") for name in NAMES[:2])
        await two.put("early", "1")
        members.clock.ms += 1
        await one.put("gone", "1")
        await one.delete("gone")
        await members.stores["node-1"].archive()
        await members.stores["node-1"].checkpoint()
        with pytest.raises(ArchiveError, match=r"was deleted from the map 'jobs' up to .* \(node-1\)"):
            await members.gather()

    run(partial(Members, tmp_path), work)


def test_a_delete_that_was_left_out_says_nothing_of_what_came_later(tmp_path: Path) -> None:
    async def work(members: Members) -> None:
        one, two = (members.stores[name].map("jobs") for name in NAMES[:2])
        await one.put("gone", "1")
        await one.delete("gone")
        await members.stores["node-1"].archive()
        await members.stores["node-1"].checkpoint()
        members.clock.ms += 1
        await two.put("late", "1")
        assert live(await members.gather(), "jobs") == {b"late": b"1"}

    run(partial(Members, tmp_path), work)


@pytest.mark.parametrize("marked", [True, False])
def test_what_a_log_held_before_its_own_mark_needs_no_delete(marked: bool, tmp_path: Path) -> None:
    """Of a destroyed map one member has let its log go, and another has not."""

    async def work(members: Members) -> None:
        one, two = (members.stores[name].map("jobs") for name in NAMES[:2])
        await two.put("gone", "1")
        await one.put("other", "1")
        await one.delete("other")
        members.clock.ms += 1
        if marked:
            await submitted(members, "node-2", Entry(b"", DROPPED, b"", "none", False, 0))
        members.clock.ms += 1
        await submitted(members, "node-1", Entry(b"", DROPPED, b"", "none", True, 0))
        engine = cast("Engine", members.stores["node-1"]._engine)
        engine.businesses["jobs"].maintenance.retires = True
        await members.stores["node-1"].archive()
        engine._retirement.tick()
        await cast("asyncio.Task[None]", engine._retirement._task)
        assert engine.retired() == ["jobs"]
        if marked:
            await members.gather()
        else:
            with pytest.raises(ArchiveError, match=r"the disks alone do not tell"):
                await members.gather()

    run(partial(Members, tmp_path), work)


def test_only_objects_of_the_copy_can_be_read(tmp_path: Path) -> None:
    async def work(members: Members) -> None:
        await members.gather()
        for key in ("../node-1", "/etc/passwd", "default/local/jobs/node-1/../../LOCK"):
            with pytest.raises(ArchiveError, match="no object"):
                await members.own["node-1"].answer(PartQuestion(key, 0, 10))

    run(partial(Members, tmp_path), work)
