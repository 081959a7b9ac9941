"""A watch of a cluster's map while a member is killed and comes back: nothing is lost, and what is late is told by its time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import kvwal
from kvwal.codecs import registry
from kvwal.entry import DataEntry
from kvwal.history.feeds.log_feed import LogFeed
from kvwal.key_class import is_of_map
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OsDisk
from kvwal_archive.layout import Place
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast
from tests.support.cluster.writers import Writers
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
CONFIG = "[log]\narchive_seconds = 3600\n"
"""What a killed member has not given is on its disk only."""


class Watcher:
    """A program that watches the map `load`, and goes on by position after each stop."""

    def __init__(self, addresses: str) -> None:
        self.found: list[DataEntry] = []
        self._addresses = addresses
        self._position: str | None = None
        self._reached = threading.Condition()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch, on a thread and a connection of its own, until the context ends."""
        begun, ended = threading.Event(), threading.Event()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self._run, begun, ended)
            running.add_done_callback(lambda _: begun.set())
            begun.wait()
            try:
                yield
            finally:
                ended.set()
                running.result()

    def _run(self, begun: threading.Event, ended: threading.Event) -> None:
        with kvwal.connect(self._addresses, cluster=CLUSTER) as store:
            watch = store.map("load").watch(after=self._position)
            begun.set()
            while not ended.wait(0.05):
                some = watch.poll()
                with self._reached:
                    self.found += some
                    self._position = watch.position
                    self._reached.notify_all()

    def wait_for(self, puts: set[tuple[str, int]]) -> None:
        """Until it has seen all of these."""
        with self._reached:
            self._reached.wait_for(lambda: puts <= {numbered(entry) for entry in self.found})


def numbered(entry: DataEntry) -> tuple[str, int | None]:
    """Key and number of a change; None is a delete."""
    return entry.key.decode(), None if entry.deleted else registry.decode(entry.value, entry.value_class)


def late_ones(found: list[DataEntry]) -> list[DataEntry]:
    """What came with a timestamp below one that had come before."""
    late: list[DataEntry] = []
    newest = 0
    for entry in found:
        if entry.timestamp < newest:
            late.append(entry)
        newest = max(newest, entry.timestamp)
    return late


def logged(three: Cluster) -> list[tuple[str, DataEntry]]:
    """All changes of the map in the logs on the disks, each with its node."""
    found = []
    for node in three.nodes:
        place = Place("default", CLUSTER, "load", node.name)
        feed = LogFeed(OsDisk(), node.root, place, lambda: None, own=False)
        while rows := feed.read():
            found += [(node.name, entry.public()) for _, entry in rows if is_of_map(entry.key_class)]
    return found


def check(watcher: Watcher, three: Cluster, contents: dict[str, int], killed: dict[str, int]) -> None:
    """What was seen is what the logs have, each entry once. What was late is of a killed member, from before its end.

    `killed` has the time of the last end of each.
    """
    found, entries = watcher.found, logged(three)
    assert Counter(found) == Counter(entry for _, entry in entries)
    late = late_ones(found)
    before = {entry for name, entry in entries if entry.timestamp >> 16 <= killed.get(name, 0) + 1000}
    assert set(late) <= before
    state: dict[str, int | None] = {}
    last: dict[bytes, int] = {}
    greatest: dict[str, int] = {}
    for change in found:  # as docs/watch.md says
        if change.timestamp >= last.get(change.key, 0):
            last[change.key] = change.timestamp
            key, number = numbered(change)
            state[key] = number
            if number is not None:
                assert number >= greatest.get(key, 0), f"{key} goes back"
                greatest[key] = number
    assert {key: number for key, number in state.items() if number is not None} == contents
    print(f"{len(found)} changes, {len(late)} late")


def adopted(nodes: list[Node], lost: Node) -> None:
    """Return when the others have adopted what it had."""

    def look() -> bool | None:
        said = [line for node in nodes for line in node.lines() if line.get("event") == "adopted"]
        done = any(line["lost"] == lost.name and line["partitions_left"] == 0 for line in said)
        return (done and not any("adopting" in node.ready() for node in nodes)) or None

    until(look)


@pytest.mark.loop
def test_a_watch_goes_on_over_kills_restarts_and_stops_of_its_client(tmp_path: Path, whole: bool) -> None:
    with cluster(tmp_path, 3, config=CONFIG) as three, three.client() as client:
        watcher = Watcher(three.addresses)
        killed: dict[str, int] = {}
        with watcher.running():
            writers = Writers(client)
            writers.wait(500)
        for number in range(3 if whole else 1):
            lost = three.nodes[2 - number % 3]
            with watcher.running():
                writers.wait(300)
                lost.kill()
                killed[lost.name] = SYSTEM.wall_ms()
                writers.wait(500)
            adopted([node for node in three.nodes if node is not lost], lost)  # while the client is away
            with watcher.running():
                writers.wait(300)
                back(three, lost)
                writers.wait(300)
        writers.end()
        with watcher.running():
            watcher.wait_for(writers.puts)
            assert not writers.wrong(three.contents("load"))
            client.get_map("load").blocking().set("end", 10**9)
            watcher.wait_for({("end", 10**9)})
        check(watcher, three, three.contents("load"), killed)


def back(three: Cluster, lost: Node) -> None:
    """Start it again; return when it has compared its log with the others."""
    before = len(lost.written_again())
    three.start()
    until(lambda: lost.written_again()[before:] or None)
