"""Restore by Spark: an archive's latest entries go into a fresh root, or into the maps of a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvwal.client.absent import put_absent
from kvwal.cluster.map_names import to_map
from kvwal.cluster.transactions import Unfinished
from kvwal.config import Settings
from kvwal.entry import Entry, timestamps_within
from kvwal.errors import ArchiveError, ConfigError
from kvwal.history.reads.entry_rows import entries_of
from kvwal.history.reads.map_rows import dropped_rows, expired_rows, marks_of, rows_of_map
from kvwal.history.restore.restore import RestorePorts, RestoreReport, restore_through
from kvwal.hlc import to_timestamp
from kvwal.key_class import INTENT
from kvwal.location.connect import connect
from kvwal.location.parse import ArchiveLocation, ClusterLocation, parse_location
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.structures.destroyed import Marks
from kvwal_archive import view
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.contents.values import archived_values, with_values
from kvwal_archive.objects import Objects, open_objects, without_credentials
from kvwal_archive.restore import businesses, check_began
from kvwal_archive.spark.restore import restore as restore_ranges
from kvwal_archive.spark.restore import restore_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Progress = Callable[[int, int, str], None]


class ClusterTarget(NamedTuple):
    """One map of a running cluster, and which rows of the archive belong into it."""

    address: str
    namespace: str
    cluster: str
    business: str
    now_ms: int
    marks: Marks
    intents: list[Entry]
    archive: str

    def put(self, rows: Iterator[pa.RecordBatch]) -> int:
        """Put the live entries of these rows whose keys are absent, and return their number. It runs on a worker."""
        touched = Unfinished(self.intents).identities()
        whole = chain.from_iterable(self._with_values(self._live(batch)) for batch in rows)
        entries = chain.from_iterable(map(entries_of, whole))
        return self.put_entries(entry for entry in entries if (entry.key_class, entry.key) not in touched)

    def put_entries(self, entries: Iterator[Entry]) -> int:
        """Put these entries, each if its key is absent, and return the number of those that were put."""
        with connect(self.address, cluster=self.cluster, namespace=self.namespace) as store:
            return put_absent(store.map(to_map(self.business)), entries)

    def put_touched(self, objects: Objects, at: int | None) -> int:
        """Put the entries of the keys that unfinished transactions change, as the transactions leave them."""
        if not self.intents:
            return 0
        unfinished, where = Unfinished(self.intents), (self.namespace, self.cluster, self.business)
        kept: list[Entry] = []
        for key_class, key in unfinished.identities():
            newest = view.history(objects, *where, key_class=key_class, key=key, at=at).slice(0, 1)
            for batch in newest.to_batches():
                for whole in self._with_values(self._live(unfinished.without(batch))):
                    kept += entries_of(whole)
        return self.put_entries(iter([*kept, *unfinished.puts(self.now_ms)]))

    def _with_values(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        objects = open_objects(self.archive)
        contents = ArchivedContents(objects, self.namespace, self.cluster, self.business)
        return with_values(archived_values(contents), batch)

    def _live(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the map that are neither deleted, nor expired, nor void because the map was destroyed."""
        import pyarrow.compute as pc

        batch = rows_of_map(batch)
        gone = pc.or_(batch.column("deleted"), expired_rows(batch, self.now_ms))
        if self.marks.own:
            gone = pc.or_(gone, dropped_rows(batch, self.marks, timestamps_within(Settings().max_skew_seconds)))
        return batch.filter(pc.invert(gone))


def restore(
    spark: SparkSession,
    archive: str | Path,
    target: str | Path,
    *,
    namespace: str = "default",
    cluster: str = "local",
    node: str | None = None,
    at: int | date | None = None,
    take_over: bool = False,
    progress: Progress | None = None,
) -> RestoreReport | dict[str, int]:
    """Restore the latest value of every key in the archive, or its value `at` a moment, with the workers of a Spark session.

    With a folder as the target this is `kvwal.restore`: the workers merge, and the driver writes the log. The folder is one of
    the driver's machine. With the address of a running cluster (`kvwal://host:port`) the workers put the entries into its maps,
    in parallel, each entry only if its key is absent: what the cluster has stays. Then the result is the number of entries that
    were put, by business. After any error the restore can be run again.

    Raises what `kvwal.restore` and `kvwal.connect` raise; what a task finds comes as Spark's PythonException, with the same
    sentence.
    """
    location = parse_location(OS_DISK, target)
    if isinstance(location, ArchiveLocation):
        raise ConfigError(
            f"{without_credentials(location.url)} is an archive, and a restore needs a folder or a cluster.",
            hint="Choose a new folder.",
        )
    if isinstance(location, ClusterLocation):
        if node is not None or take_over:
            raise ConfigError(
                "A cluster's nodes keep their own logs: nothing is taken over there.",
                hint="Leave out node and take_over.",
            )
        moment = None if at is None else to_timestamp(at)
        return _into_cluster(spark, str(archive), location, (namespace, cluster), moment, progress)
    return restore_through(
        RestorePorts(OS_DISK, SYSTEM), archive, target, namespace=namespace, cluster=cluster, node=node, at=at,
        take_over=take_over, storage_options=None, progress=progress, read=partial(restore_batches, spark),
    )  # fmt: skip


def _into_cluster(
    spark: SparkSession,
    archive: str,
    location: ClusterLocation,
    where: tuple[str, str],
    at: int | None,
    progress: Progress | None,
) -> dict[str, int]:
    objects = open_objects(archive)
    names = businesses(objects, *where)
    if not names:
        raise ArchiveError(
            f"{objects.url}: there is nothing of {'/'.join(where)} here.", hint="Check the URL, namespace and cluster."
        )
    if at is not None:
        check_began(objects, *where, at)
    put = {}
    for index, name in enumerate(names):
        if progress is not None:
            progress(index, len(names), name)
        marks = marks_of(objects, (*where, name), at=at)
        intents = [] if at is not None else list(_intents(objects, (*where, name), marks))
        into = ClusterTarget(location.addresses, *where, name, SYSTEM.wall_ms(), marks, intents, archive)
        counts = restore_ranges(
            spark, archive, into.put, int, namespace=where[0], cluster=where[1], business=name, at=at
        )
        put[name] = sum(counts) + into.put_touched(objects, at)
    return put


def _intents(objects: Objects, where: tuple[str, str, str], marks: Marks) -> Iterator[Entry]:
    """Transactions that a crash interrupted, but for those of a map that was destroyed since."""
    skew = timestamps_within(Settings().max_skew_seconds)
    for key in view.keys_of_class(objects, *where, INTENT):
        row = view.history(objects, *where, key_class=INTENT, key=key).slice(0, 1).to_pylist()[0]
        if not marks.ended(row["node"], row["timestamp"], skew):
            yield Entry(key, INTENT, row["value"], row["value_class"], False, row["timestamp"])
