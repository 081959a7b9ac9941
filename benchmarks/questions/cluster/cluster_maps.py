"""Many maps on one node: the time of a metrics scrape, of writes during scrapes, and of a shutdown."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import hazelcast

from benchmarks.harness import Question, Row, Run, absolute_row
from benchmarks.nodes import Nodes, fetch, nodes

QUESTION = Question(
    "cluster_maps",
    "How much do many maps slow down a scrape and a shutdown of a node?",
    "for a scrape, the same bytes from Python's HTTP server in an idle process; for a shutdown, a node with one map.",
    "starting the node and making the maps. Before each shutdown every map has a change that the archive lacks.",
)
COUNTS = (1, 200, 3_000)
SCRAPES = 20
Figures = dict[str, float]


class Maps:
    """A node with `count` maps, started once for each round."""

    def __init__(self, run: Run, count: int) -> None:
        self._at = (run.root(), 1, run.root())
        self._count = count
        self.page = b""

    def round(self, number: int) -> Figures:
        """Start the node, change every map, scrape while a client writes to one map, and shut the node down."""
        with nodes(*self._at) as node:
            with node.client() as client:
                changes = [client.get_map(f"map-{map_}").set("key", number) for map_ in range(self._count)]
                for change in changes:
                    change.result()
                figures = scraped(node, client)
            self.page = node.page()
            began = time.perf_counter()
            node.end()
            return figures | {"shutdown": time.perf_counter() - began}


def scraped(node: Nodes, client: hazelcast.HazelcastClient) -> Figures:
    """The median time of the scrapes, and the slowest of the writes of a client during the scrapes. Times are in ms."""
    write_times, ended = [0.0], threading.Event()

    def write() -> None:
        map_ = client.get_map("map-0").blocking()
        while not ended.is_set():
            began = time.perf_counter()
            map_.set("key", began)
            write_times.append(1000 * (time.perf_counter() - began))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        scrape = timed(node.page)
    finally:
        ended.set()
        writer.join()
    return {"scrape": scrape, "slowest write during the scrapes, ms": max(write_times), "writes": len(write_times) - 1}


def timed(read: Any) -> float:
    """The median time of `SCRAPES` calls, in ms."""
    times = []
    for _ in range(SCRAPES):
        began = time.perf_counter()
        read()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


@contextmanager
def serving(page: bytes) -> Iterator[str]:
    """Serve these bytes over HTTP, and give the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Any path."""
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def measure(run: Run) -> list[Row]:
    """Two rows for each number of maps: a scrape, and a shutdown beside that of a node with one map."""
    rows, one = [], Maps(run, 1)
    for count in [run.size(each, min(each, 20)) for each in COUNTS]:
        many, rounds = Maps(run, count), list[Figures]()

        def ours(many: Maps = many, rounds: list[Figures] = rounds) -> float:
            rounds.append(many.round(len(rounds)))
            return rounds[-1]["shutdown"]

        baselines, shutdowns = run.interleave(3, lambda: one.round(0)["shutdown"], ours)
        with serving(many.page) as address:
            plain = timed(partial(fetch, address))
        maps = f"{count:,} map{'s' if count > 1 else ''}"
        slowest = "slowest write during the scrapes, ms"
        notes = {slowest: max(figures[slowest] for figures in rounds)}
        notes["bytes of the scraped page"] = len(many.page)
        scrapes = [figures["scrape"] for figures in rounds]
        rows.append(absolute_row(f"a scrape, {maps}", "ms", [plain] * len(scrapes), scrapes, "at most", 100, notes))
        rows.append(absolute_row(f"a shutdown, {maps}", "s", baselines, shutdowns, "at most", 60))
    return rows
