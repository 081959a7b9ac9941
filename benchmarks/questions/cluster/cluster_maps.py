"""What many maps cost a node: a scrape of its figures, the writes meanwhile, and its end."""

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
    "What do many maps cost a node that is watched and stopped?",
    "for a scrape, the same bytes from Python's own HTTP server in a process that does nothing else; for an end, a node with one"
    " map.",
    "starting the node and making the maps. Before each end every map has a change that the archive lacks.",
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
        """One life of the node: a change in every map, scrapes while one of them is written to, and the end."""
        with nodes(*self._at) as node:
            with node.client() as client:
                changes = [client.get_map(f"map-{each}").set("key", number) for each in range(self._count)]
                for change in changes:
                    change.result()
                found = scraped(node, client)
            self.page = node.page()
            began = time.perf_counter()
            node.end()
            return found | {"end": time.perf_counter() - began}


def scraped(node: Nodes, client: hazelcast.HazelcastClient) -> Figures:
    """The median of some scrapes, in ms, and what a writer of one map sees meanwhile."""
    slow, ended = [0.0], threading.Event()

    def write() -> None:
        map_ = client.get_map("map-0").blocking()
        while not ended.is_set():
            began = time.perf_counter()
            map_.set("key", began)
            slow.append(1000 * (time.perf_counter() - began))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        scrape = timed(node.page)
    finally:
        ended.set()
        writer.join()
    return {"scrape": scrape, "slowest write meanwhile, ms": max(slow), "writes meanwhile": len(slow) - 1}


def timed(read: Any) -> float:
    """The median of some calls, in ms."""
    took = []
    for _ in range(SCRAPES):
        began = time.perf_counter()
        read()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)


@contextmanager
def serving(page: bytes) -> Iterator[str]:
    """The address at which these bytes are served."""

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
    """For each number of maps, a scrape and an end; the node with one map is what the others' ends stand beside."""
    rows, one = [], Maps(run, 1)
    for count in [run.size(each, min(each, 20)) for each in COUNTS]:
        many, found = Maps(run, count), list[Figures]()

        def ours(many: Maps = many, found: list[Figures] = found) -> float:
            found.append(many.round(len(found)))
            return found[-1]["end"]

        limits, ends = run.interleave(3, lambda: one.round(0)["end"], ours)
        with serving(many.page) as address:
            plain = timed(partial(fetch, address))
        maps = f"{count:,} map{'s' if count > 1 else ''}"
        notes = {name: max(each[name] for each in found) for name in found[0] if name.startswith("slowest")}
        notes["bytes of the page"] = len(many.page)
        scrapes = [each["scrape"] for each in found]
        rows.append(absolute_row(f"a scrape, {maps}", "ms", [plain] * len(scrapes), scrapes, "at most", 100, notes))
        rows.append(absolute_row(f"an end, {maps}", "s", limits, ends, "at most", 60))
    return rows
