"""The making of a base on Spark: a task makes the parts of one range of keys, and the driver commits when all are there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kvwal_archive.bases.build import BasePlan, base_inputs, commit_base, plan_base, put_parts
from kvwal_archive.bases.record import Base, Part
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.objects import open_objects
from kvwal_archive.reader import listed_again
from kvwal_archive.spark.plan import Partition, check_business, partitions_of
from kvwal_archive.spark.scan import latest_rows
from kvwal_archive.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def base(spark: SparkSession, url: str, *, namespace: str, cluster: str, business: str) -> Base:
    """Make the base of a business up to the end of what is archived of each node, and return it.

    `make_base` (`kvwal_archive.bases.local`) makes one of the same rows. Each task makes parts that no reader uses before
    the driver has put the commit. So a lost executor or a killed driver does no harm, and the call can be made again: it
    goes on with the parts that are there. Raises ConfigError, ArchiveGap, ArchiveDamaged, ArchiveError; what a task finds
    comes as Spark's PythonException, with the same sentence.
    """
    where = (namespace, cluster, business)
    objects = open_objects(url).for_one_look()
    check_business(objects, *where)

    def make() -> Base:
        inputs = base_inputs(objects, where)
        if inputs.current is not None:
            return inputs.current
        partitions = partitions_of(objects, inputs.node_parts)
        plan = plan_base(where, inputs, [key_range.low for partition in partitions for key_range in partition.ranges])
        made = run_tasks(spark, partial(_put, url, plan), list(enumerate(partitions)), list[Part] | str)
        if gone := [answer for answer in made if isinstance(answer, str)]:
            raise ObjectMissing(gone[0])  # compaction was quicker: the objects are listed again
        return commit_base(objects, plan, [part for parts in made for part in parts if isinstance(part, Part)])

    return listed_again(make)


def _put(url: str, plan: BasePlan, piece: tuple[int, Partition]) -> list[Part] | str:
    """The parts of one range; a sentence if an object has gone. It runs on a worker."""
    number, partition = piece
    objects = open_objects(url)
    try:
        return list(put_parts(objects, plan, number, latest_rows(objects, partition)))
    except ObjectMissing as error:
        return str(error)
