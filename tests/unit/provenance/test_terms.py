"""The file of terms: it says of each term the rows that were written, and of damaged bytes that they are."""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwal.history.bounded_cache import BoundedCache
from kvwal.history.provenance import terms
from kvwal.history.provenance.terms import MAGIC, DamagedTermsError, TermsFile, encoded_terms

Pair = tuple[int, int]
MOST = (1 << 64) - 1


def written(pairs: list[Pair], events: int = 3) -> bytes:
    """The bytes of a file of these terms and rows."""
    columns = [pa.array([pair[n] for pair in pairs], kind) for n, kind in ((0, pa.uint64()), (1, pa.uint32()))]
    timestamps = pa.chunked_array([pa.array(range(1, events + 1), pa.int64())])
    return b"".join(encoded_terms(pa.table(columns, ["term", "row"]), timestamps))


def opened(data: bytes) -> TermsFile:
    """The file of these bytes."""
    return TermsFile(len(data), lambda offset, size: data[offset : offset + size])


def found(file: TermsFile, term: int) -> list[int]:
    """The rows of a term."""
    there = file.find(term)
    if there is None:
        return []
    rows: list[int] = there.read().to_pylist()
    assert there.size == len(rows)
    return rows


@given(
    st.lists(st.tuples(st.integers(0, MOST) | st.integers(0, 20), st.integers(0, (1 << 32) - 1)), min_size=1),
    st.integers(1, 9),
)
def test_each_term_has_the_rows_that_were_written(pairs: list[Pair], per_block: int) -> None:
    pairs = sorted(set(pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "BLOCK_TERMS", per_block)
        file = opened(written(pairs))
    assert [[*zip(*(column.to_pylist() for column in file.table()), strict=True)]] == [pairs]
    by_term = {term: [row for _, row in group] for term, group in groupby(pairs, key=lambda pair: pair[0])}
    for term in [*by_term, 0, MOST, *(min(term + 1, MOST) for term in by_term)]:
        assert found(file, term) == by_term.get(term, [])
    assert (file.events, file.first_timestamp, file.last_timestamp) == (3, 1, 3)


def test_a_changed_or_missing_byte_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "BLOCK_TERMS", 4)
    pairs = [(term * 7, row) for term in range(9) for row in range(term + 1)] + [(100, row) for row in range(3_000)]
    data = written(pairs)

    def answers(data: bytes) -> list[list[int]]:
        file = opened(data)
        return [found(file, term) for term in range(102)]

    wanted = answers(data)
    noticed = 0
    for at in range(len(data)):
        for broken in (data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :], data[:at]):
            try:
                assert answers(broken) == wanted
            except DamagedTermsError:
                noticed += 1
    assert noticed == 2 * len(data) - len(MAGIC)  # nobody reads the first bytes: `file` knows the format by them


def test_a_term_that_is_nowhere_costs_one_block_and_one_that_is_there_its_rows() -> None:
    pairs = [(term * 2, row) for term in range(50_000) for row in (term, term + 1)]
    data, reads = written(pairs), list[int]()

    def read(offset: int, size: int) -> bytes:
        reads.append(size)
        return data[offset : offset + size]

    file = TermsFile(len(data), read)
    assert sum(reads) < 40 * len(pairs) / terms.BLOCK_TERMS, "what stays in memory is some bytes for a block"
    for term, most in ((31_337, 1), (50_000, 2), (-1, 0)):
        reads.clear()
        assert found(file, term) == ([25_000, 25_001] if term == 50_000 else [])
        assert len(reads) == most
        assert sum(reads) <= most * terms.BLOCK_TERMS * 12


def test_what_was_read_last_is_kept_up_to_a_limit() -> None:
    made: list[int] = []
    recent: BoundedCache[int, bytes] = BoundedCache(10, len)

    def get(key: int, size: int) -> int:
        def make() -> bytes:
            made.append(key)
            return bytes(size)

        return len(recent.get(key, make))

    assert [get(1, 4), get(2, 4), get(1, 4), get(3, 4), get(1, 4)] == [4] * 5
    assert made == [1, 2, 3], "2 was not asked for longest"
    get(2, 4)
    assert made == [1, 2, 3, 2]
    assert get(4, 99) == 99
    assert len(recent) == 1, "one value is kept also above the limit"
    recent.keep_only(lambda key: key != 4)
    assert len(recent) == 0
    assert [get(5, 10), get(5, 10)] == [10, 10]
    assert made == [1, 2, 3, 2, 4, 5]
