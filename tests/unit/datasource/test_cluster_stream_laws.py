"""Batches of a cluster's changes: any limits, restarts, deaths of nodes and late rows give each change once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kvwal.cluster.requests import WatchStarted
from kvwal.entry import Entry
from kvwal.errors import ArchiveGap
from kvwal.history.feeds.cluster_page import LogPart, page_of
from kvwal.spark.datasource.cluster_batches import ClusterBatches, Limits
from kvwal.structures.watch import Change, Positions, Start

NODES = ("n1", "n2", "n3")


class Members:
    """Logs of three nodes. Of a node that is away only the archived part can be read."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Change]] = {node: [] for node in NODES}
        self.archived: Positions = dict.fromkeys(NODES, 0)
        self.away: set[str] = set()
        self.page_rows = 3
        self._now = 0

    def put(self, node: str, count: int) -> None:
        if node not in self.away:
            for _ in range(count):
                self._now += 1
                sequence = len(self.logs[node]) + 1
                self.logs[node].append(Change(node, sequence, Entry(b"k", "str", b"v", "str", False, self._now)))

    def last(self, node: str) -> int:
        return self.archived[node] if node in self.away else len(self.logs[node])

    def begin(self, start: Start) -> WatchStarted:
        return WatchStarted({node: self.last(node) for node in NODES}, 0)

    def begin_with_all(self) -> WatchStarted:
        return WatchStarted(dict.fromkeys(NODES, 0), 0)

    def page(self, at: WatchStarted) -> tuple[list[Change], Positions]:
        parts = []
        for node in NODES:
            rows = self.logs[node][at.positions.get(node, 0) : self.last(node)]
            parts.append(LogPart(rows[: self.page_rows], len(rows) > self.page_rows))
        page = page_of(parts, at.positions, at.since)
        return page.changes, page.positions


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NODES), st.integers(1, 5)),
        st.tuples(st.sampled_from(["kill", "back", "archive"]), st.sampled_from(NODES), st.just(0)),
        st.tuples(st.just("batch"), st.just(""), st.integers(0, 4)),
        st.tuples(st.just("available"), st.just(""), st.integers(0, 4)),
        st.tuples(st.just("restart"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_change_comes_once_and_a_batch_read_again_has_all_its_rows_or_is_an_error(
    steps: list[tuple[str, str, int]],
) -> None:
    members = Members()
    at = members.begin_with_all()
    reader = ClusterBatches(members, "jobs")
    batches: list[tuple[WatchStarted, WatchStarted, list[Change]]] = []

    def batch(limit: int, target: Positions | None = None) -> None:
        nonlocal at
        changes, end = reader.read(at, Limits(limit or None), target)
        assert not limit or len(changes) <= limit
        assert bool(changes) is (end != at)
        if changes:
            batches.append((at, end, changes))
        at = end

    for kind, node, number in steps:
        if kind == "put":
            members.put(node, number)
        elif kind == "kill":
            members.away.add(node)
        elif kind == "back":
            members.away.discard(node)
        elif kind == "archive" and node not in members.away:
            members.archived[node] = len(members.logs[node])
        elif kind == "batch":
            batch(number)
        elif kind == "available":
            reader = ClusterBatches(members, "jobs")
            target = members.begin(None).positions
            members.put("n1", 1)
            begun = None
            while begun != at:
                begun = at
                batch(number, target)
            assert all(at.positions[node] >= last for node, last in target.items())
            reader = ClusterBatches(members, "jobs")
        elif kind == "restart":
            reader = ClusterBatches(members, "jobs")
            for begin, end, changes in batches[-2:]:
                there = all(
                    members.last(node) >= last or begin.positions[node] >= last for node, last in end.positions.items()
                )
                try:
                    again = reader.replay(begin, end.positions)
                except ArchiveGap:
                    assert not there, "every row can be had"
                else:
                    assert sorted(again, key=lambda c: c.order) == sorted(changes, key=lambda c: c.order)
    members.away.clear()
    batch(0)
    given_changes = [change for _, _, changes in batches for change in changes]
    for node in NODES:
        assert [change for change in given_changes if change.node == node] == members.logs[node]


def test_a_limit_of_bytes_ends_a_batch_and_gives_one_change_at_least() -> None:
    members = Members()
    members.put("n1", 5)
    at = members.begin_with_all()
    reader = ClusterBatches(members, "jobs")
    assert [len(reader.read(at, Limits(bytes=size))[0]) for size in (1, 3, 4, 100)] == [1, 2, 2, 5]
    assert reader.read(replace(at, since=3), Limits())[0] == members.logs["n1"][3:]
