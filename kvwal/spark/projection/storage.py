"""The RDDs that Spark keeps, applied to the records: what Spark's page *Storage* lists, without the blocks."""

from __future__ import annotations

from operator import attrgetter

from kvwal.spark import records as rec
from kvwal.spark.events.jobs import RddInfo, UnpersistRdd
from kvwal.spark.projection.state import Handler, ProjectionState
from kvwal.spark.record_keys import rdd_key
from kvwal.spark.records import cut

MAX_RDDS = 100
"""RDDs of one stage. An iterative program keeps one in each round: the newest ones are recorded, the others were before."""


def note_rdds(state: ProjectionState, stage: rec.Stage, infos: list[RddInfo]) -> None:
    """Record the RDDs that a stage computes or reads, and that are kept."""
    kept = sorted((info for info in infos if info.storage_level.is_kept), key=attrgetter("rdd_id"))[-MAX_RDDS:]
    stage.rdds = [info.rdd_id for info in kept]
    for info in kept:
        key = rdd_key(state.prefix, info.rdd_id)
        if state.cache.fetch(key, rec.Rdd) is None:
            level, call_site = str(info.storage_level), cut(info.call_site)
            rdd = rec.Rdd(id=info.rdd_id, level=level, partitions=info.partitions, call_site=call_site, stage=stage.id)
            rdd.name = cut(info.name)
            state.cache.add(key, rdd)


def drop_rdds(state: ProjectionState, stage: rec.Stage) -> None:
    """Drop the RDDs that this stage computed, when its own record is dropped."""
    for number in stage.rdds:
        key = rdd_key(state.prefix, number)
        rdd = state.cache.fetch(key, rec.Rdd)
        if rdd is not None and rdd.stage == stage.id:
            state.cache.drop(key)


def _unpersisted(state: ProjectionState, event: UnpersistRdd) -> None:
    key = rdd_key(state.prefix, event.rdd_id)
    rdd = state.cache.fetch(key, rec.Rdd)
    if rdd is not None:
        rdd.unpersisted = True
        state.cache.touch(key)


HANDLERS: dict[type, Handler] = {UnpersistRdd: _unpersisted}
