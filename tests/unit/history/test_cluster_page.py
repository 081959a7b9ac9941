"""A page of a cluster's watch: pages of any size, of logs in any state, give each change once and in one order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvwal.entry import Entry
from kvwal.history.feeds.cluster_page import LogBounds, LogPart, limit_of, page_of, to_raise
from kvwal.history.feeds.page_cursor import PageCursor, PageCursors
from kvwal.history.feeds.segment_cursor import Rows
from kvwal.key_class import INTENT
from kvwal.structures.watch import Change, Positions
from kvwal_archive.layout import Place

PLACE = Place("default", "local", "jobs", "n1")


def entry(timestamp: int, key_class: str = "str") -> Entry:
    return Entry(b"key", key_class, b"value", "str", False, timestamp)


class Feed:
    """A log in memory: blocks of rows."""

    def __init__(self, blocks: list[Rows], position: int = 0) -> None:
        self.position = position
        self.reads = 0
        self._blocks = blocks

    def read(self, until: int | None = None) -> Rows:
        self.reads += 1
        for block in self._blocks:
            rows = [row for row in block if row[0] > self.position]
            if rows and (until is None or block[0][0] <= until):
                self.position = rows[-1][0]
                return rows
        return []


def blocks_of(times: list[int], size: int) -> list[Rows]:
    rows = [(number, entry(time)) for number, time in enumerate(times, 1)]
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


LOGS = st.dictionaries(
    st.sampled_from(["n1", "n2", "n3"]), st.lists(st.integers(1, 30), max_size=25), min_size=1, max_size=3
)


@given(LOGS, st.integers(1, 4), st.integers(1, 6), st.lists(st.integers(0, 31), max_size=6), st.data())
def test_pages_give_each_change_once_and_in_order(
    logs: dict[str, list[int]], block: int, page: int, limits: list[int], data: st.DataObject
) -> None:
    logs = {node: sorted(times) for node, times in logs.items()}
    given_changes, everything = all_pages(logs, block, page, limits, data)
    assert given_changes == sorted(everything, key=lambda change: change.order)


@given(LOGS, st.integers(1, 4), st.integers(1, 6), st.lists(st.integers(0, 31), max_size=6), st.data())
def test_pages_of_logs_into_which_nodes_were_merged_give_each_change_once(
    logs: dict[str, list[int]], block: int, page: int, limits: list[int], data: st.DataObject
) -> None:
    given_changes, everything = all_pages(logs, block, page, limits, data)
    assert sorted(given_changes, key=lambda change: change.order) == sorted(everything, key=lambda change: change.order)
    for node in logs:
        sequences = [change.sequence for change in given_changes if change.node == node]
        assert sequences == sorted(sequences)


def all_pages(
    logs: dict[str, list[int]], block: int, page: int, limits: list[int], data: st.DataObject
) -> tuple[list[Change], list[Change]]:
    """The changes of all pages, and all changes that there are.

    The limit grows; a reader is answered by cursors that fit, by new ones, or gets its page again.
    """
    blocks = {node: blocks_of(times, block) for node, times in logs.items()}
    kept: dict[str, PageCursor] = {}
    given_changes: list[Change] = []
    positions: Positions = {}
    for limit in [*sorted(limits), *[31] * 80]:
        parts = []
        for node, times in logs.items():
            position = positions.get(node, 0)
            if len(times) <= position:
                continue
            found = kept.get(node)
            if found is None or not found.has(position) or data.draw(st.integers(0, 9)) == 0:
                found = kept[node] = PageCursor(Feed(blocks[node], position), page)
            rows, more = found.page(position, len(times), limit)
            assert len(rows) < page + block
            parts.append(LogPart([Change(node, *row) for row in rows], more))
        result = page_of(parts, positions, 0)
        if limit < 31 and data.draw(st.booleans()):
            continue  # its answer was lost
        given_changes += result.changes
        positions = result.positions
    return given_changes, [Change(node, *row) for node in blocks for part in blocks[node] for row in part]


def test_a_page_ends_where_a_log_may_have_more() -> None:
    short = LogPart([Change("n1", 1, entry(5)), Change("n1", 2, entry(7))], more=True)
    whole = LogPart([Change("n2", 1, entry(6)), Change("n2", 2, entry(8))], more=False)
    page = page_of([short, whole], {"n3": 9}, 0)
    assert [(change.node, change.sequence) for change in page.changes] == [("n1", 1), ("n2", 1), ("n1", 2)]
    assert page.positions == {"n1": 2, "n2": 1, "n3": 9}


def test_marks_and_what_is_before_the_start_are_passed_and_not_given() -> None:
    changes = [Change("n1", 1, entry(5)), Change("n1", 2, entry(7, INTENT)), Change("n1", 3, entry(8))]
    page = page_of([LogPart(changes, more=False)], {}, 5)
    assert [change.sequence for change in page.changes] == [3]
    assert page.positions == {"n1": 3}
    assert page_of([], {"n1": 3}, 0) == ([], {"n1": 3})


def test_the_least_low_watermark_is_the_limit_and_members_below_news_are_asked_to_rise() -> None:
    ends = {"n1": LogBounds(90, 7, 80), "n2": LogBounds(70, 3, 60), "n3": LogBounds(75, None, 0)}
    assert limit_of(ends) == 70
    assert to_raise(ends, {"n1": 6}) == (80, ["n2", "n3"])
    assert to_raise(ends, {"n1": 7}) == (60, [])
    assert to_raise(ends, {"n1": 7, "n2": 3}) == (0, [])


def test_a_cursor_goes_on_without_a_new_read_and_holds_one_page() -> None:
    times = list(range(1, 5001))
    feed = Feed(blocks_of(times, 500))
    cursor = PageCursor(feed)
    rows, more = cursor.page(0, 5000, 5000)
    assert (len(rows), more, feed.reads) == (2000, True, 4)
    assert cursor.page(0, 5000, 5000) == (rows, more)  # the answer was lost
    assert cursor.page(1990, 5000, 5000)[0][0][0] == 1991
    assert cursor.page(1995, 5000, 1999) == ([(number, entry(number)) for number in range(1996, 2000)], False)
    assert not cursor.has(1994)


def test_cursors_are_found_by_position_and_the_oldest_goes() -> None:
    kept = PageCursors(2)
    first, second, third = (PageCursor(Feed([], position)) for position in (5, 6, 7))
    for cursor in (first, second, third):
        kept.keep(PLACE, cursor)
    assert kept.take(PLACE, 5) is None
    assert kept.take(PLACE._replace(business="other"), 6) is None
    assert kept.take(PLACE, 6) is second
    assert kept.take(PLACE, 6) is None
    assert kept.take(PLACE, 7) is third
