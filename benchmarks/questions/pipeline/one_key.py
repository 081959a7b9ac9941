"""One key of a large archive by the data source: the bytes that are read from the bucket, and the time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from benchmarks.harness import Question, Row, Run, absolute_row, in_child, ratio_row
from benchmarks.pipeline import by_hand
from benchmarks.pipeline.random_archive import KEYS, fill, first_key, key
from benchmarks.pipeline.relay import relayed
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects, open_objects
from tests.support.archive import s3

QUESTION = Question(
    "one_key",
    "What does the data source read for one key of an archive of 200 objects?",
    "of the bytes, those of all footers and filters, and of the objects with the key; of the time, the query without pushdown.",
    "making the archive, starting the session, and of the time a first query. The bucket is of a SeaweedFS on this machine,"
    " for the first row behind a relay that counts the bytes of its answers. The keys of each object are from all over.",
)
MODULE = "benchmarks.questions.pipeline.one_key"
PLACE = Place(**by_hand.PLACE, node="node-1")
OBJECTS, ROWS = 200, 10_000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def query(url: str, keys: dict[str, int], pushdown: bool, environment: dict[str, str]) -> float:
    """The seconds of the last of these queries for a key, each with the number of its rows, in a new session."""
    os.environ.update(environment)
    spark = by_hand.session({PUSHDOWN: str(pushdown).lower()})
    seconds = 0.0
    for wanted, there in keys.items():
        started = time.perf_counter()
        frame = spark.read.format("kvwal").options(archive=url, business=by_hand.BUSINESS).load()
        found = frame.where(f"key = '{wanted}'").count()
        seconds = time.perf_counter() - started
        if found != there:
            raise AssertionError(f"{wanted} was found {found} times")
    spark.stop()
    return seconds


def bytes_needed(objects: Objects, keys: Iterable[str]) -> int:
    """The bytes of all footers and filters, and of the objects that have the key, for each key."""
    from kvwal_archive.parquet.columns import find_rows
    from kvwal_archive.parquet.key_filter import filter_place
    from kvwal_archive.parquet.metadata import read_metadata
    from kvwal_archive.reader import live_objects

    total = 0
    for info in live_objects(objects, PLACE):
        with objects.open(info.key) as file:
            _, metadata = read_metadata(file, info.key)
        rows_end, _ = filter_place(metadata, 0)
        for wanted in keys:
            total += info.size - rows_end
            total += rows_end if len(find_rows(objects, info, "str", wanted.encode())) else 0
    return total


def measure(run: Run) -> list[Row]:
    """Two rows: the bytes that are read for a key that is not there and for one that is, and the seconds for the latter."""
    server = s3.server()
    url = s3.bucket(server)
    objects = open_objects(url, server.options())
    fill(objects, PLACE, run.size(OBJECTS, 5), run.size(ROWS, 100))
    keys = {key(KEYS): 0, first_key(): 1}
    needed = bytes_needed(objects, keys)

    def seconds(pushdown: bool, endpoint: str = server.endpoint) -> float:
        environment = server.environment() | {"AWS_ENDPOINT_URL": endpoint}
        return float(in_child(f"{MODULE}:query", url=url, keys=keys, pushdown=pushdown, environment=environment))

    with relayed(server.endpoint) as relay:
        seconds(True, relay.url)
        read = relay.answered
    times = run.interleave(2, lambda: seconds(False), lambda: seconds(True))
    return [
        ratio_row("Bytes read for two keys of 200 objects, one there", "bytes", [needed], [read], "at most", 2),
        absolute_row("One key of 200 objects in a bucket", "s", *times, "at most", 2),
    ]
