"""One member asks, all archive: who has answered what."""

from __future__ import annotations

import asyncio

from kvwal.cluster.bootstrap import Status
from kvwal.errors import ArchiveError
from kvwal.node.adapters.archive_requests import ArchiveRequests


class Archive:
    """Counts how often it was brought up to date; `refuses` so many times first."""

    def __init__(self, refuses: int = 0) -> None:
        self.runs = 0
        self._refuses = refuses

    async def __call__(self) -> None:
        if self._refuses:
            self._refuses -= 1
            raise ArchiveError("it does not answer.", hint="Look at it.")
        self.runs += 1


def status(name: str, archiving: ArchiveRequests) -> Status:
    return Status(member=name, name=name, address=name, asks=archiving.asks, answered=archiving.answered)


async def settle(archiving: ArchiveRequests, statuses: list[Status]) -> None:
    archiving.answer(statuses)
    if archiving._task is not None:
        await archiving._task


def test_a_request_is_answered_once_all_members_have_archived_since() -> None:
    async def run() -> None:
        archive = Archive()
        a, b = ArchiveRequests("a", archive), ArchiveRequests("b", archive)
        number = a.ask(1000, [])
        assert a.lacking(number, [status("a", a), status("b", b)], "ab")
        statuses = [status("a", a), status("b", b)]
        await settle(a, statuses)
        assert a.lacking(number, [status("a", a), status("b", b)], "ab") == ["b"]
        await settle(b, statuses)
        assert not a.lacking(number, [status("a", a), status("b", b)], "ab")
        there = [status("a", a), status("b", b)]
        assert a.lacking(number, there, "abc") == ["c"], "it is there, and has told nothing yet"
        await settle(b, [status("a", a), status("b", b)])
        assert archive.runs == 2, "what was answered is not done again"

    asyncio.run(run())


def test_two_that_ask_at_once_are_both_answered_however_their_clocks_differ() -> None:
    async def run() -> None:
        a, b, c = (ArchiveRequests(name, Archive()) for name in "abc")
        late, early = a.ask(9_000_000, []), b.ask(1000, [])
        await settle(c, [status("a", a)])
        assert b.lacking(early, [status("c", c)], "c"), "it archived for another one, and before b asked"
        await settle(c, [status("a", a), status("b", b)])
        assert not b.lacking(early, [status("c", c)], "c")
        assert not a.lacking(late, [status("c", c)], "c")

    asyncio.run(run())


def test_a_restarted_member_asks_by_a_new_number() -> None:
    async def run() -> None:
        b = ArchiveRequests("b", Archive())
        a = ArchiveRequests("a", Archive())
        a.ask(9000, [])
        await settle(b, [status("a", a)])
        again = ArchiveRequests("a", Archive())
        number = again.ask(5, [status("b", b)])
        assert again.lacking(number, [status("b", b)], "b")

    asyncio.run(run())


def test_an_archive_that_refuses_is_no_answer_and_is_asked_again() -> None:
    async def run() -> None:
        archive = Archive(refuses=1)
        a, b = ArchiveRequests("a", archive), ArchiveRequests("b", archive)
        number = a.ask(1000, [])
        await settle(b, [status("a", a)])
        assert a.lacking(number, [status("b", b)], "b")
        await settle(b, [status("a", a)])
        assert not a.lacking(number, [status("b", b)], "b")

    asyncio.run(run())
