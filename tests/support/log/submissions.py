"""Entries, and submissions of them to the log of an open business."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kvwal.entry import Entry
from kvwal.log.submission import Submission, size_of
from kvwal.store.open_business import OpenBusiness


def put(business: OpenBusiness, *entries: Entry) -> Awaitable[int]:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    assert business.offer(Submission(list(entries), size_of(list(entries)), future))
    return future


def entry(key: str, *, deleted: bool = False) -> Entry:
    return Entry(key.encode(), "str", b"" if deleted else b"x", "" if deleted else "bytes", deleted, 0)
