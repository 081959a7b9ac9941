"""Laws of the archive, on random histories: the merge is a join, its two forms agree, and rewriting changes no answer."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import chain, pairwise
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwal_archive import registry
from kvwal_archive.errors import InvalidName
from kvwal_archive.layout import (
    MAX_NUMBER,
    Place,
    Span,
    check_name,
    object_key,
    parse_object_key,
    parse_registration_key,
    registration_key,
)
from kvwal_archive.maintenance.compaction import compact_rows, gc, rewrite
from kvwal_archive.merge import FEW_ROWS, MergeSource, Row, all_batches, latest_plain, latest_table
from kvwal_archive.objects import open_objects
from kvwal_archive.parquet.rows import schema, sorted_rows
from kvwal_archive.reader import live_objects, unsuperseded
from kvwal_archive.verify import verify
from kvwal_archive.view import history, latest
from kvwal_archive.writer import put_segment
from tests.support.archive.history import LOG, PLACE, from_table, merged, place, table
from tests.support.chance import examples
from tests.support.log.shapes import Shaped, shapes

NAME = st.from_regex(r"[A-Za-z0-9%@+][A-Za-z0-9._%@+-]{0,127}", fullmatch=True)
PLACES = st.builds(Place, NAME, NAME, NAME, NAME)
NUMBER = st.integers(1, MAX_NUMBER)
SPANS = st.tuples(NUMBER, NUMBER, st.integers(0, MAX_NUMBER)).map(lambda n: Span(min(n[:2]), max(n[:2]), n[2]))
NODES = ("a", "b", "c")


def logs(node: str) -> st.SearchStrategy[list[Row]]:
    """The log of one node: sequences from 1, transactions of one to three entries that share a timestamp, a greater one each. Its
    data is random, or of a shape."""
    of_a_shape = st.builds(shaped_log, st.just(node), shapes(12, huge=3000), st.integers(1, 3))
    return st.one_of(random_logs(node), random_logs(node), of_a_shape)


def shaped_log(node: str, shaped: Shaped, size: int) -> list[Row]:
    """The changes of a shape as a log, in transactions of `size` entries."""
    return [
        Row(
            "str", change.key.encode(), change.value or b"", "" if change.value is None else "bytes",
            change.value is None, 1 + number // size, 7 if change.ttl_ms else 0, node, number + 1,
        )
        for number, change in enumerate(shaped.changes)
    ]  # fmt: skip


@st.composite
def random_logs(draw: st.DrawFn, node: str) -> list[Row]:
    """A log of few keys and short values."""
    found: list[Row] = []
    timestamp = draw(st.integers(1, 5))
    for size in draw(st.lists(st.integers(1, 3), max_size=8)):
        found += [draw(entries(node, timestamp, len(found) + 1 + number)) for number in range(size)]
        timestamp += draw(st.integers(1, 4))
    return found


def entries(node: str, timestamp: int, sequence: int) -> st.SearchStrategy[Row]:
    kinds = st.sampled_from(["str", "int", "bytes"])
    keys = st.sampled_from([b"", b"k", b"k\0", b"\xff"])
    values = st.one_of(st.just(None), st.binary(max_size=3))
    return st.builds(
        lambda kind, key, value, expires: Row(
            kind, key, value or b"", "" if value is None else "bytes", value is None, timestamp, expires, node, sequence
        ),
        kinds,
        keys,
        values,
        st.sampled_from([0, 7]),
    )


HISTORIES = st.tuples(*(logs(node) for node in NODES))


@st.composite
def mixes(draw: st.DrawFn) -> list[list[Row]]:
    """Three inputs of a merge: rows of three nodes' logs, in any order, repeated and overlapping."""
    found = list(chain.from_iterable(draw(HISTORIES)))
    part = st.lists(st.sampled_from(found), max_size=12) if found else st.just([])
    return [draw(part) for _ in range(3)]


def merge(*parts: Sequence[Row]) -> list[Row]:
    return latest_plain(row for part in parts for row in part)


@given(mixes())
def test_merging_is_commutative_associative_and_idempotent(parts: list[list[Row]]) -> None:
    a, b, c = parts
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c)) == merge(a, b, c)
    assert merge(merge(a), a) == merge(a, a) == merge(a)


@settings(max_examples=examples(60))
@given(HISTORIES, st.one_of(st.none(), st.integers(0, 30)), st.integers(0, 25), st.integers(0, 4))
def test_the_plain_and_the_vectorised_form_agree(
    found: tuple[list[Row], ...], at: int | None, up_to: int, after: int
) -> None:
    sources = [
        MergeSource(node, table(rows), up_to if node == "b" else None, after=after if node == "c" else 0)
        for node, rows in zip(NODES, found, strict=True)
    ]
    first, last = {"a": 0, "b": 0, "c": after}, {"a": MAX_NUMBER, "b": up_to, "c": MAX_NUMBER}
    counted = [row for rows in found for row in rows if first[row.node] < row.sequence <= last[row.node]]
    for few in (0, FEW_ROWS):
        with patch("kvwal_archive.merge.FEW_ROWS", few):
            assert from_table(latest_table(sources, at)) == latest_plain(counted, at)
            assert from_table(latest_table([*sources, *sources], at)) == latest_plain(counted, at)


@settings(max_examples=examples(60))
@given(HISTORIES, st.integers(0, 12), st.sampled_from([1, 2, 3]))
def test_all_rows_of_a_stream_are_in_the_order_of_the_merge(found: tuple[list[Row], ...], cut: int, rows: int) -> None:
    parts = [(node, part) for node, log in zip(NODES, found, strict=True) for part in (log[:cut], log[cut // 2 :])]
    with patch("kvwal_archive.merge.BATCH_ROWS", rows):
        streamed = all_batches([MergeSource(node, table(part)) for node, part in parts if part])
        given_rows = [row for batch in streamed for row in from_table(pa.Table.from_batches([batch]))]
    newest_first = sorted(chain.from_iterable(found), key=lambda row: row.age, reverse=True)
    assert given_rows == sorted(newest_first, key=lambda row: row.identity)


@given(logs("a"), st.integers(0, 40), st.integers(0, 40))
def test_compaction_keeps_every_answer_from_the_horizon_on(found: list[Row], horizon: int, later: int) -> None:
    if not found:
        return
    kept = compact_rows(sorted_rows(table(found)), horizon)
    back = [row for row in found if row.sequence in set(kept.column("sequence").to_pylist())]
    for at in range(horizon, 45):
        assert latest_plain(back, at) == latest_plain(found, at)
    assert [row for row in found if row.timestamp >= horizon] == [row for row in back if row.timestamp >= horizon]
    once, twice = compact_rows(kept, max(horizon, later)), compact_rows(sorted_rows(table(found)), max(horizon, later))
    assert once.equals(twice)


@st.composite
def archives(draw: st.DrawFn) -> tuple[list[Row], list[int], list[tuple[int, int]]]:
    """A log, where it is cut into objects, and rewrites as (after how many objects, with which horizon in ms)."""
    found = draw(logs("a").filter(lambda rows: len(rows) > 1))
    cuts = sorted(draw(st.sets(st.integers(1, len(found) - 1), max_size=6)) | {0, len(found)})
    rewrites = draw(st.lists(st.tuples(st.integers(0, len(cuts)), st.integers(0, 40)), max_size=3))
    return [row._replace(node=PLACE.node, timestamp=row.timestamp << 16) for row in found], cuts, rewrites


@settings(max_examples=examples(40))
@given(archives(), logs("z"), st.booleans())
def test_rewriting_and_collecting_in_any_order_change_no_answer(
    archive: tuple[list[Row], list[int], list[tuple[int, int]]], other: list[Row], collect: bool
) -> None:
    found, cuts, rewrites = archive
    objects = open_objects(f"memory://{uuid.uuid4().hex}")
    registry.register(objects, PLACE, LOG)
    registry.register(objects, place("z"), LOG)  # it has archived nothing yet, so all deletes stay
    highest = 0
    for number, (start, end) in enumerate(pairwise(cuts)):
        rows = table(found[start:end])
        put_segment(objects, PLACE, Span(start + 1, end), rows, log_id=LOG, previous_crc=start, seal_crcs=[end])
        for horizon in (ms for after, ms in rewrites if after == number):
            rewrite(objects, PLACE, now_ms=horizon, history_ms=0, force=True)
            highest = max(highest, horizon)
            if collect:
                gc(objects, PLACE, now_ms=1 << 48, grace_ms=0)
    where = (PLACE.namespace, PLACE.cluster, PLACE.business)
    tails = [("z", table(other))]
    for at in (None, highest << 16, 45 << 16):
        assert latest(objects, *where, at=at, tails=tails).equals(merged(latest_plain(found + other, at)))
    key = found[-1].identity
    kept = from_table(history(objects, *where, key_class=key[0], key=key[1]))
    assert [row for row in kept if row.timestamp >= highest << 16] == [
        row for row in reversed(found) if row.identity == key and row.timestamp >= highest << 16
    ]
    assert verify(objects).findings == []
    assert live_objects(objects, PLACE)[0].span.first == 1


def live(rows: Sequence[Row], at_ms: int) -> list[Row]:
    """What a reader is told of these rows as of that time."""
    return [row for row in rows if not row.deleted and not 0 < row.expires <= at_ms]


@pytest.mark.long
@settings(max_examples=examples(40))
@given(
    HISTORIES,
    st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 6), st.integers(0, 60)), min_size=4, max_size=14),
)
def test_rewriting_the_logs_of_several_nodes_brings_no_key_back(
    found: tuple[list[Row], ...], steps: list[tuple[str, int, int]]
) -> None:
    """At each step a node archives some more entries, and is rewritten; in the end all is archived."""
    objects = open_objects(f"memory://{uuid.uuid4().hex}")
    logged = {
        node: [row._replace(timestamp=row.timestamp << 16) for row in rows]
        for node, rows in zip(NODES, found, strict=True)
    }
    archived = dict.fromkeys(NODES, 0)
    highest = 0

    def put(node: str, count: int) -> None:
        start, end = archived[node], min(len(logged[node]), archived[node] + count)
        while 0 < end < len(logged[node]) and logged[node][end].timestamp == logged[node][end - 1].timestamp:
            end += 1  # a transaction is never cut
        if end > start:
            span, rows = Span(start + 1, end), table(logged[node][start:end])
            put_segment(objects, place(node), span, rows, log_id=LOG, previous_crc=start, seal_crcs=[end])
            archived[node] = end

    for node in NODES:
        registry.register(objects, place(node), LOG)
    for node, count, horizon in steps:
        put(node, count)
        rewrite(objects, place(node), now_ms=horizon, history_ms=0, force=True)
        highest = max(highest, horizon)
    for node in NODES:
        put(node, len(logged[node]))
    everything = [row for rows in logged.values() for row in rows]
    for at_ms in (highest, highest + 1, 100):
        at = (at_ms << 16) | 0xFFFF
        told = from_table(latest(objects, PLACE.namespace, PLACE.cluster, PLACE.business, at=at))
        assert live(told, at_ms) == live(latest_plain(everything, at), at_ms)
    assert verify(objects).findings == []


@given(PLACES, SPANS)
def test_object_names_round_trip(where: Place, span: Span) -> None:
    assert parse_object_key(object_key(where, span)) == (where, span)
    assert parse_registration_key(object_key(where, span)) is None


@given(PLACES, st.integers(1, 10**9 - 1))
def test_registration_names_round_trip(where: Place, number: int) -> None:
    assert parse_registration_key(registration_key(where, number)) == (where, number)
    assert parse_object_key(registration_key(where, number)) is None


@given(st.one_of(st.text(), st.text(st.sampled_from("a/_.-%20\\\0\n"), max_size=12)))
def test_a_name_is_legal_and_harmless_or_refused(name: str) -> None:
    try:
        check_name("node", name)
    except InvalidName:
        return
    assert name
    assert name[0] not in "._-"
    assert not set(name) & set("/\\\0\n ")
    assert object_key(place(name), Span(1, 1)).split("/")[3] == name


@given(st.text(st.sampled_from("ab/_.-0123456789parquetlog"), max_size=60))
def test_every_name_that_parses_is_one_that_is_built(key: str) -> None:
    if parsed := parse_object_key(key):
        assert object_key(*parsed) == key
    if registration := parse_registration_key(key):
        assert registration_key(*registration) == key


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2)), max_size=10))
def test_exactly_what_another_span_supersedes_is_left_out(numbers: list[tuple[int, int, int]]) -> None:
    spans = {Span(min(a, b), max(a, b), horizon) for a, b, horizon in numbers}
    live = unsuperseded(spans)
    assert set(live) == {span for span in spans if not any(other.supersedes(span) for other in spans)}
    assert [span.first for span in live] == sorted(span.first for span in live)


@pytest.mark.parametrize("name", schema().names)
def test_no_column_may_hold_nothing(name: str) -> None:
    assert not schema().field(name).nullable
