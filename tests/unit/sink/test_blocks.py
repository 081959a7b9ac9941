"""Blocks of entries, and how they become transactions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.entry import Entry
from kvwal.log.submission import size_of
from kvwal.spark.sink.blocks import (
    StagedBlock,
    StagedRowsLost,
    decode_plan,
    encode_plan,
    entries_of,
    in_transactions,
    make_block,
    split_rows,
)

SIZES = st.lists(st.integers(0, 300))


def put(number: int, size: int) -> Entry:
    return Entry(b"%06d" % number, "str", b"x" * size, "bytes", False, 0)


@given(SIZES, st.integers(64, 1000))
def test_entries_keep_their_order_in_blocks_that_are_as_large_as_allowed(sizes: list[int], most: int) -> None:
    entries = [put(number, size) for number, size in enumerate(sizes)]
    blocks = list(split_rows(entries, most))
    assert [entry for block in blocks for entry in block] == entries
    assert all(len(block) == 1 or size_of(block) <= most for block in blocks)
    assert all(size_of([*one, other[0]]) > most for one, other in itertools.pairwise(blocks))


@given(SIZES, st.integers(1, 1000))
def test_blocks_keep_their_order_in_transactions_and_share_one_if_they_fit(sizes: list[int], most: int) -> None:
    blocks = [StagedBlock(str(number), size, 0) for number, size in enumerate(sizes)]
    plan = in_transactions(blocks, most)
    assert [block for transaction in plan for block in transaction] == blocks
    assert all(len(one) == 1 or sum(block.size for block in one) <= most for one in plan)
    assert len(plan) <= 1 or sum(sizes) > most
    assert decode_plan(encode_plan(plan)) == plan


def test_a_block_that_was_changed_is_refused() -> None:
    entries = [put(1, 50), Entry(b"b", "str", b"", "", True, 0)]
    block, data = make_block("name", entries)
    assert [entry.public() for entry in entries_of(block, data)] == [entry.public() for entry in entries]
    for other in (data[:-1], data[:-1] + bytes([data[-1] ^ 1]), b""):
        with pytest.raises(StagedRowsLost, match="name is damaged"):
            entries_of(block, other)
