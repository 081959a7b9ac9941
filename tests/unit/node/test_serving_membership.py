"""Waiting until all members have archived: it ends when the last one has, and tells whom it waits for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kvwal.errors import ArchiveError
from kvwal.node.adapters import serving_membership
from kvwal.node.adapters.archive_requests import ArchiveRequests
from kvwal.node.adapters.serving_membership import ServingMembership
from kvwal.ports.clock import SYSTEM
from kvwal.ports.tasks import ThreadWorkers

WAITING = "waiting until all members have archived what they hold"


class Others:
    """The statuses of two members. node-1 has archived what `requests` ask for, node-2 at the `looks`-th look."""

    def __init__(self, looks: int) -> None:
        self.left = looks
        self.requests = ArchiveRequests("node-1", nothing)

    async def all(self) -> list[Any]:
        self.left -= 1
        done = {"node-1": self.requests.asks}
        return [
            SimpleNamespace(name="node-1", answered=done),
            SimpleNamespace(name="node-2", answered=done if self.left < 0 else {}),
        ]


async def nothing() -> None:
    """Archive: there is nothing to do."""


async def wait(others: Others, **within: float) -> None:
    """Wait as node-1 for the archives of node-1 and node-2."""
    membership: Any = SimpleNamespace(own=SimpleNamespace(name="node-1"), names=lambda: ["node-1", "node-2"])
    unused: Any = SimpleNamespace(apart=0)
    statuses: Any = others
    workers = ThreadWorkers("kvwal-test", 1)
    try:
        serving = ServingMembership(membership, unused, unused, statuses, others.requests, SYSTEM, workers)
        await serving.all_archive(**within)
    finally:
        workers.close()


@pytest.fixture(autouse=True)
def _told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_membership, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(serving_membership, "_TELL_SECONDS", 0.01)


def test_it_waits_as_long_as_it_takes_and_says_for_whom(caplog: pytest.LogCaptureFixture) -> None:
    others = Others(looks=60)
    asyncio.run(wait(others))
    assert others.left == -1
    said = [record.getMessage() for record in caplog.records if WAITING in record.getMessage()]
    assert said
    assert all("node-2" in line and "node-1'" not in line.partition("lacking")[2] for line in said)


def test_it_says_nothing_where_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(wait(Others(looks=1)))
    assert WAITING not in caplog.text


def test_after_its_time_it_ends_by_an_error_that_names_who_lacks() -> None:
    with pytest.raises(ArchiveError, match=r"^node-2 did not bring the archive up to date within 0\.05 s"):
        asyncio.run(wait(Others(looks=1 << 30), within=0.05))
