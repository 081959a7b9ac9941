"""A transaction that no block can hold goes into a file of its own, however it came to the writer."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path

import pytest

from kvwal.cluster.recovery_buffer import RecoveryBuffer, as_recovery_buffer
from kvwal.codecs import Codecs
from kvwal.config import TRANSACTION_BYTES
from kvwal.entry import Entry, encode_entries, make_entry
from kvwal.errors import ConfigError
from kvwal.key_class import DROPPED
from kvwal.log.files.format import MAX_PAYLOAD
from kvwal.log.submission import Submission, size_of
from kvwal.log.writer import BLOCK_BYTES
from kvwal.node.adapters.destroyed_maps import delete
from kvwal.store.engine import Engine
from kvwal.store.open_business import OpenBusiness
from tests.support.disk.faults import make_options, open_store

LONG = 3500


@pytest.mark.parametrize(("key", "value"), [(b"", b""), (b"k", b"v"), (b"k" * 300, b"v" * 70_000)])
def test_one_block_holds_any_transaction_up_to_the_limit(key: bytes, value: bytes) -> None:
    name = "c" * 63 + "@999999"
    Codecs().register_old(name, bytes)
    with pytest.raises(ConfigError, match="is no codec name"):
        Codecs().register_old(f"c{name}", bytes)
    entry = make_entry(key, name, value, name, False, (1 << 64) - 1, (1 << 64) - 1)
    count = TRANSACTION_BYTES // size_of([entry])
    assert len(encode_entries([entry] * count)) < MAX_PAYLOAD


def test_a_submission_above_the_block_limit_is_written_and_the_writer_goes_on(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        entries = [Entry(b"%d" % n, "str", bytes(BLOCK_BYTES), "bytes", False, 0) for n in range(5)]
        assert size_of(entries) > MAX_PAYLOAD
        future: Future[int] = Future()
        jobs._business.submit(Submission(entries, size_of(entries), future))
        timestamp = future.result()
        jobs["b"] = 2
        assert len(jobs) == 7
    with open_store(tmp_path) as store:
        jobs = store.map("jobs")
        assert len(jobs) == 7
        assert jobs._business.state.lookup("str", b"3").timestamp == timestamp


def test_a_destroyed_map_is_deleted_in_transactions_that_the_log_takes(tmp_path: Path) -> None:
    """More keys than one block holds, found at a start after the mark of their destruction."""
    count = MAX_PAYLOAD // LONG + 100

    def put(business: OpenBusiness, entries: list[Entry]) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        assert business.offer(Submission(entries, size_of(entries), future))
        return future

    async def leave() -> None:
        engine = Engine(make_options(tmp_path), own_loop=True, memory=lambda context, place, now: RecoveryBuffer(now))
        business = await engine.business("jobs")
        for first in range(0, count, 500):
            keys = [f"{number:<{LONG}}".encode() for number in range(first, min(first + 500, count))]
            await put(business, [Entry(key, "str", b"1", "int", False, 0) for key in keys])
        await put(business, [Entry(b"", DROPPED, b"", "none", False, 0)])
        await engine.close(archive=False)

    async def start() -> tuple[int, int]:
        engine = Engine(make_options(tmp_path), own_loop=True, memory=lambda context, place, now: RecoveryBuffer(now))
        business = await engine.business("jobs")
        state = as_recovery_buffer(business.memory)
        dropped = state.take_dropped()
        deleted = await delete(business, dropped[:-1], lambda entry: True) if dropped else 0
        left = state.map.count()
        await engine.close(archive=False)
        return deleted, left

    asyncio.run(leave())
    assert asyncio.run(start()) == (count, 0)
    assert asyncio.run(start()) == (0, 0)
