"""Maintenance of the archive on Spark: what `kvwal archive rewrite`, `verify` and `gc` do, with one task for each piece of work.

A piece is a compaction, an object or a log. Tasks need no lock: an object's name tells its contents, and it is put only if it
is absent. So a task may run twice, beside another one, or beside the store's own archiver.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kvwal_archive.bases.check import report_on_bases
from kvwal_archive.bases.collect import gc_bases
from kvwal_archive.contents.collect import gc_contents
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import Place, base_folder
from kvwal_archive.maintenance import compaction
from kvwal_archive.maintenance.compaction import HISTORY_MS, Rewrite
from kvwal_archive.objects import Listed, Objects, open_objects, scratch
from kvwal_archive.reader import listed_again, live_objects
from kvwal_archive.registry import registered
from kvwal_archive.spark.plan import check_business
from kvwal_archive.spark.tasks import run_tasks
from kvwal_archive.verify import Checked, Report, check_object, report
from kvwal_archive.writer import Stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRACE_MS = 3_600_000


def rewrite(
    spark: SparkSession,
    url: str,
    *,
    namespace: str,
    cluster: str,
    business: str,
    history_ms: int = HISTORY_MS,
    force: bool = False,
) -> list[Stored]:
    """Compact the logs of a business, of all nodes, and return the new objects. The old ones stay until `gc`.

    Every entry is kept for `history_ms`. `force` merges and compacts all objects. A task compacts neighbouring objects, of up
    to 256 MiB together, in its worker's memory. Raises ConfigError, ArchiveDamaged, ArchiveError; what a task finds comes as
    Spark's PythonException, with the same sentence.
    """
    objects = open_objects(url)
    places = _places(objects, namespace, cluster, business)

    now_ms = _now_ms(spark)

    def compact() -> list[Stored]:
        jobs = [
            (place, job)
            for place in places
            for job in compaction.plan(live_objects(objects, place), now_ms=now_ms, history_ms=history_ms, force=force)
        ]
        made = run_tasks(spark, partial(_compact, url), jobs, Stored | str | None)
        if gone := [answer for answer in made if isinstance(answer, str)]:
            raise ObjectMissing(gone[0])  # another rewriter was quicker, and its inputs are removed already
        return [stored for stored in made if isinstance(stored, Stored)]

    return listed_again(compact)


def verify(spark: SparkSession, url: str, *, namespace: str, cluster: str, business: str) -> Report:
    """Check every object and every base of a business, of all nodes, as `kvwal archive verify` does: a task reads one to its
    last byte.

    Raises ConfigError and ArchiveError; faults of the archive are in the report.
    """
    objects = open_objects(url)
    places = _places(objects, namespace, cluster, business)
    listed = [item for place in places for item in objects.list(f"{place.prefix}/")]
    of_bases = objects.list(base_folder(namespace, cluster, business))
    checked = run_tasks(spark, partial(_check, url), [*listed, *of_bases], Checked)
    logs = report(objects, listed, checked[: len(listed)])
    bases = report_on_bases(objects, of_bases, checked[len(listed) :])
    return Report(
        logs.objects_checked + bases.objects_checked, logs.rows + bases.rows, [*logs.findings, *bases.findings]
    )


def gc(
    spark: SparkSession, url: str, *, namespace: str, cluster: str, business: str, grace_ms: int = GRACE_MS
) -> list[str]:
    """Remove the objects of a business that compactions have superseded for `grace_ms`, and return their keys.

    A task does this for the log of one node; the driver removes bases that no read begins with any more, and claim files that
    nothing names. Raises as `rewrite`; what one task has removed stays removed.
    """
    objects = open_objects(url)
    places, now_ms = _places(objects, namespace, cluster, business), _now_ms(spark)
    removed = run_tasks(spark, partial(_remove, url, now_ms, grace_ms), places, list[str])
    of_bases = gc_bases(objects, namespace, cluster, business, now_ms=now_ms, grace_ms=grace_ms)
    of_contents = gc_contents(objects, namespace, cluster, business, now_ms=now_ms, grace_ms=grace_ms)
    return [*(key for keys in removed for key in keys), *of_bases, *of_contents]


def _places(objects: Objects, namespace: str, cluster: str, business: str) -> list[Place]:
    check_business(objects, namespace, cluster, business)
    return registered(objects, namespace, cluster, business)


def _now_ms(spark: SparkSession) -> int:
    """The wall clock of the driver, in unix milliseconds."""
    return int(spark.sql("SELECT unix_millis(current_timestamp()) AS now").collect()[0].now)


def _compact(url: str, piece: tuple[Place, Rewrite]) -> Stored | str | None:
    """The new object; None if it would equal its only input; a sentence if an input has gone."""
    try:
        return compaction.run(open_objects(url), *piece)
    except ObjectMissing as error:
        return str(error)


def _check(url: str, item: Listed) -> Checked:
    with scratch() as folder:
        return check_object(open_objects(url), item, folder)


def _remove(url: str, now_ms: int, grace_ms: int, place: Place) -> list[str]:
    return compaction.gc(open_objects(url), place, now_ms=now_ms, grace_ms=grace_ms)
