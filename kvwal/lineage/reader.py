"""The graph of an open location: a folder, a cluster or an archive, or one of them at an earlier moment."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import islice

import msgspec

from kvwal.lineage.graph import Graph
from kvwal.lineage.names import DatasetNames
from kvwal.lineage.openlineage.runs import BUSINESS as OPENLINEAGE
from kvwal.lineage.openlineage.runs import add_told
from kvwal.location.readers import LocationReader
from kvwal.spark.eventlog.log_reader import BUSINESS as SPARK
from kvwal.spark.lineage.edges import AFTER_EDGES, EDGES, Edges, application_of_edges, edges_of
from kvwal.spark.record_reader import IndexedReader, RecordReader, everything, records_of
from kvwal.spark.records import Batch, Job, Sql

_RUNS = re.compile(r"^(?P<app>.+)/(?:(?:sql|job)/\d+|stream/[^/]+/\d+)$")
_AT_ONCE = 5_000
_decode = msgspec.json.Decoder(list[Edges]).decode


class Lineage:
    """The graph of a location, and the names of the applications in it, which are read when they are asked for."""

    def __init__(self, store: LocationReader, records: RecordReader | None = None) -> None:
        """Read the graph. `records` are those of the store, if somebody has them: to find their index takes as long as a fourth
        of the rest. An error of the store is raised as it is.
        """
        businesses = store.businesses()
        self._records: RecordReader | None = None
        if SPARK in businesses:
            self._records = records_of(store) if records is None else records
        self.is_indexed = self._records is None or self._records.has_edges
        """False if all records were read, because there is no whole index: see `kvwal.spark.index.complete_index`."""
        self.graph = Graph()
        with without_collections():
            if self._records is not None:
                self.graph.add("spark", edges_in(self._records))
            if OPENLINEAGE in businesses:
                add_told(self.graph, store.read_business(OPENLINEAGE))
            self.graph.finish()

    @cached_property
    def names(self) -> DatasetNames:
        """The names of the data sets."""
        return DatasetNames(self.graph.names())

    def application(self, prefix: str) -> str:
        """The name of an application; the prefix of its keys if it has none."""
        found = None if self._records is None else self._records.application(prefix)
        return prefix if found is None or not found.name else found.name


@contextmanager
def without_collections() -> Iterator[None]:
    """No garbage collection meanwhile: it would walk again and again through a graph that only grows, half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def edges_in(records: RecordReader) -> Iterator[tuple[str, Edges]]:
    """The edges of all records, each with its application: from the index, or from the records if the index is not whole."""
    if isinstance(records, IndexedReader) and records.has_edges:
        found = records.entries(EDGES, AFTER_EDGES)
        prefix, app = AFTER_EDGES.encode(), ""  # with which no key begins
        while batch := list(islice(found, _AT_ONCE)):
            whole = b",".join([entry.value for entry in batch])  # one call of the decoder, which takes half the time
            for entry, edges in zip(batch, _decode(b"[" + whole + b"]"), strict=True):
                if not entry.key.startswith(
                    prefix
                ):  # the keys are sorted, so those of one application follow each other
                    app = application_of_edges(entry.key)
                    prefix = f"{EDGES}{app}=".encode()
                yield app, edges
        return
    for stored in everything(records):
        if (run := _RUNS.match(stored.key)) is None:
            continue
        record = stored.record()
        if isinstance(record, Sql | Job | Batch) and getattr(record, "status", "") != "RUNNING":
            of_record = edges_of(record)
            if of_record is not None:
                yield run["app"], of_record
