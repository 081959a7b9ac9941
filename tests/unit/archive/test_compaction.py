"""Compaction: what is planned, what is kept, what may be removed, and that a reader never notices."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from kvwal_archive.errors import ArchiveDamaged, ArchiveGap
from kvwal_archive.layout import Span
from kvwal_archive.maintenance import compaction as rewriting
from kvwal_archive.maintenance.compaction import compact_rows, gc, plan, rewrite, run
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.rows import Footer, ObjectInfo, sorted_rows
from kvwal_archive.reader import coverage, live_objects, read_rows
from kvwal_archive.registry import take_over
from kvwal_archive.verify import verify
from kvwal_archive.view import history, latest
from tests.support.archive.history import LOG, PLACE, fill, put, rows, table

WHERE = ("ns", "local", "jobs")
FAR_MS = 1 << 46
KIB = 1 << 10


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path))


def info(
    first: int, last: int, data_bytes: int, *, identities: int | None = None, log_id: str = LOG, horizon: int = 0
) -> ObjectInfo:
    """An object of `last - first + 1` rows, one a millisecond."""
    count = last - first + 1
    footer = Footer(
        format=1,
        log_id=log_id,
        **PLACE._asdict(),
        first=first,
        last=last,
        horizon=horizon,
        previous_crc=0,
        seal_crcs=[1],
        rows=count,
        identities=count if identities is None else identities,
        data_bytes=data_bytes,
        min_timestamp=first << 16,
        max_timestamp=last << 16,
        body_crc=0,
    )
    return ObjectInfo(f"{first}", Span(first, last, horizon), footer, data_bytes, 0)


def spans(jobs: list[rewriting.Rewrite]) -> list[tuple[int, int]]:
    return [(job.inputs[0].span.first, job.inputs[-1].span.last) for job in jobs]


def test_a_few_small_objects_are_left_alone() -> None:
    assert plan([info(1, 10, KIB), info(11, 20, KIB), info(21, 30, KIB)], now_ms=0) == []


def test_small_neighbours_are_merged_and_a_large_one_is_not() -> None:
    infos = [info(1, 10, 500 * KIB), *(info(10 * i + 1, 10 * i + 10, KIB) for i in range(1, 6))]
    assert spans(plan(infos, now_ms=0)) == [(11, 60)]


def test_objects_join_while_they_are_not_much_larger_than_what_joined_before() -> None:
    sizes = [900, 400, 200, 100, 100]
    infos = [info(10 * i + 1, 10 * i + 10, size * KIB) for i, size in enumerate(sizes)]
    assert spans(plan(infos, now_ms=0)) == [(1, 50)]


def test_an_entry_is_rewritten_a_logarithmic_number_of_times() -> None:
    live: list[ObjectInfo] = []
    written = 0
    for number in range(512):
        live.append(info(number + 1, number + 1, 100 * KIB))
        for job in plan(live, now_ms=0):
            merged = info(
                job.inputs[0].span.first, job.inputs[-1].span.last, sum(i.footer.data_bytes for i in job.inputs)
            )
            live = [i for i in live if i not in job.inputs] + [merged]
            live.sort(key=lambda i: i.span)
            written += merged.footer.data_bytes
    assert len(live) <= 12
    assert written <= 6 * 512 * 100 * KIB


def test_nothing_is_merged_across_a_gap_or_from_log_to_log() -> None:
    gap = [info(1, 10, KIB), info(11, 20, KIB), info(22, 30, KIB), info(31, 40, KIB)]
    assert plan(gap, now_ms=0) == []
    logs = [info(1, 10, KIB), info(11, 20, KIB), info(21, 30, KIB, log_id="log-2"), info(31, 40, KIB, log_id="log-2")]
    assert plan(logs, now_ms=0) == []
    assert spans(plan(logs, now_ms=0, force=True)) == [(1, 20), (21, 40)]


def test_an_output_is_bounded() -> None:
    infos = [info(i, i, rewriting.MAX_BYTES // 3) for i in range(1, 13)]
    assert [len(job.inputs) for job in plan(infos, now_ms=0, force=True)] == [3, 3, 3, 3]


def test_garbage_alone_is_reason_enough_once_it_is_older_than_the_history() -> None:
    worn = [info(1, 1000, KIB, identities=500)]
    assert plan(worn, now_ms=1000, history_ms=1000) == []
    assert plan(worn, now_ms=1300, history_ms=1000) == []
    assert spans(plan(worn, now_ms=1600, history_ms=1000)) == [(1, 1000)]
    assert plan([info(1, 1000, KIB, identities=950)], now_ms=5000, history_ms=1000) == []
    assert plan([info(1, 1000, KIB, identities=500, horizon=999 << 16)], now_ms=1999, history_ms=1000) == []


def test_force_rewrites_what_has_any_garbage_and_leaves_what_has_none() -> None:
    assert spans(plan([info(1, 1000, KIB, identities=999)], now_ms=5000, history_ms=0, force=True)) == [(1, 1000)]
    assert plan([info(1, 1000, KIB)], now_ms=5000, history_ms=0, force=True) == []


def test_below_the_horizon_only_the_latest_of_each_identity_stays() -> None:
    found = rows(1, 200, keys=30)
    horizon = 1120 << 16
    older = {row.identity: row for row in found if row.timestamp < horizon}
    kept = [row for row in found if row.timestamp >= horizon or row == older[row.identity]]
    assert compact_rows(sorted_rows(table(found)), horizon).equals(sorted_rows(table(kept)))
    assert any(row.deleted for row in older.values())
    assert compact_rows(sorted_rows(table(found)), 0).equals(sorted_rows(table(found)))


def test_rows_that_stand_in_two_inputs_stand_once_in_the_output() -> None:
    twice = pa.concat_tables([table(rows(1, 50)), table(rows(30, 80))])
    assert compact_rows(sorted_rows(twice), 0).equals(sorted_rows(table(rows(1, 80))))


def test_a_rewrite_keeps_every_answer_and_the_chain_of_seals(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100), (101, 150), (151, 200)])
    before = latest(objects, *WHERE)
    told: list[tuple[int, int, str]] = []
    (stored,) = rewrite(objects, PLACE, now_ms=1100, history_ms=0, progress=lambda *step: told.append(step))
    put(objects, PLACE, 201, 220)
    (made, _) = live_objects(objects, PLACE)
    assert made.key == stored.key
    assert made.span == Span(1, 200, 1100 << 16)
    assert (made.footer.previous_crc, made.footer.seal_crcs) == (0, [200])
    assert told[0] == (0, 1, f"{PLACE.prefix} 1–200")
    assert told[-1][:2] == (1, 1)
    assert latest(objects, *WHERE, nodes={"node-1": 200}).equals(before)
    assert verify(objects).findings == []
    with pytest.raises(ArchiveGap):
        latest(objects, *WHERE, at=1099 << 16)


def test_without_old_rows_nothing_is_dropped_and_no_horizon_is_claimed(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100), (101, 150), (151, 200)])
    rewrite(objects, PLACE, now_ms=1000, history_ms=0)
    (made,) = live_objects(objects, PLACE)
    assert (made.span, made.footer.rows) == (Span(1, 200), 200)
    assert len(latest(objects, *WHERE, at=1030 << 16))


def test_the_horizon_never_goes_back(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100)])
    rewrite(objects, PLACE, now_ms=1080, history_ms=0, force=True)
    put(objects, PLACE, 101, 150)
    rewrite(objects, PLACE, now_ms=1020, history_ms=0, force=True)
    (made,) = live_objects(objects, PLACE)
    assert made.span == Span(1, 150, 1080 << 16)


def test_rewriting_again_changes_nothing(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100), (101, 150), (151, 200)])
    assert rewrite(objects, PLACE, now_ms=1100, history_ms=0, force=True)
    before = objects.list("")
    assert rewrite(objects, PLACE, now_ms=1100, history_ms=0, force=True) == []
    assert objects.list("") == before


def test_two_rewriters_make_the_same_object(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100), (101, 150), (151, 200)])
    (job,) = plan(live_objects(objects, PLACE), now_ms=1100, history_ms=0)
    assert run(objects, PLACE, job) == run(objects, PLACE, job)


def test_a_job_that_would_drop_nothing_of_its_only_input_makes_nothing(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50)])
    (only,) = live_objects(objects, PLACE)
    assert run(objects, PLACE, rewriting.Rewrite((only,), 0)) is None


def test_a_damaged_input_stops_the_rewrite(objects: Objects) -> None:
    stored = fill(objects, PLACE, [(1, 50), (51, 100), (101, 150), (151, 200)])
    whole = objects.read(stored[2].key)
    objects.delete(stored[2].key)
    objects.put_if_absent(stored[2].key, whole[:50] + b"\0\0\0\0" + whole[54:])
    with pytest.raises(ArchiveDamaged, match=stored[2].key):
        rewrite(objects, PLACE, now_ms=1100, history_ms=0)


def test_logs_that_took_over_are_rewritten_each_for_itself(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100)], "log-1")
    take_over(objects, PLACE, "log-2", 101)
    for first in (101, 151):
        put(objects, PLACE, first, first + 49, "log-2")
    before = latest(objects, *WHERE)
    rewrite(objects, PLACE, now_ms=0, force=True)
    assert [(i.span, i.footer.log_id) for i in live_objects(objects, PLACE)] == [
        (Span(1, 100), "log-1"),
        (Span(101, 200), "log-2"),
    ]
    assert latest(objects, *WHERE).equals(before)


def test_gc_waits_for_the_grace_period_of_the_superseding_object(objects: Objects, tmp_path: Path) -> None:
    inputs = fill(objects, PLACE, [(1, 50), (51, 100)])
    (made,) = rewrite(objects, PLACE, now_ms=0, force=True)
    before = latest(objects, *WHERE)
    os.utime(tmp_path / made.key, (1000, 1000))
    assert gc(objects, PLACE, now_ms=1_000_999, grace_ms=1000) == []
    told: list[str] = []
    removed = gc(objects, PLACE, now_ms=1_001_000, grace_ms=1000, progress=lambda done, total, what: told.append(what))
    assert removed == [item.key for item in inputs]
    assert told == [made.key]
    assert latest(objects, *WHERE).equals(before)
    assert gc(objects, PLACE, now_ms=FAR_MS, grace_ms=0) == []


def test_gc_removes_nothing_when_the_superseding_object_is_damaged(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100)])
    (made,) = rewrite(objects, PLACE, now_ms=0, force=True)
    whole = objects.read(made.key)
    objects.delete(made.key)
    objects.put_if_absent(made.key, whole[:50] + b"\0\0\0\0" + whole[54:])
    with pytest.raises(ArchiveDamaged, match=made.key):
        gc(objects, PLACE, now_ms=FAR_MS, grace_ms=0)
    assert len(objects.list(f"{PLACE.prefix}/0")) == 3


def test_gc_leaves_foreign_and_unreadable_objects_to_a_person(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100), (60, 120)], "log-1")
    take_over(objects, PLACE, "log-2", 101)
    (made,) = rewrite(objects, PLACE, now_ms=0, force=True)
    damaged = f"{PLACE.prefix}/{2:020d}-{3:020d}.parquet"
    objects.put_if_absent(damaged, b"junk")
    gc(objects, PLACE, now_ms=FAR_MS, grace_ms=0)
    left = [item.key for item in objects.list(f"{PLACE.prefix}/0")]
    assert left == [made.key, damaged, f"{PLACE.prefix}/{60:020d}-{120:020d}.parquet"]


def test_gc_sweeps_what_killed_puts_left(objects: Objects, tmp_path: Path) -> None:
    fill(objects, PLACE, [(1, 50)])
    left = tmp_path / PLACE.prefix / ".x.1.partial"
    left.write_bytes(b"half")
    assert gc(objects, PLACE, now_ms=FAR_MS, grace_ms=0) == [f"{PLACE.prefix}/.x.1.partial"]


def test_the_history_above_the_horizon_survives(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100), (101, 150), (151, 200)])
    full = history(objects, *WHERE, key_class="str", key=b"key-001")
    rewrite(objects, PLACE, now_ms=1100, history_ms=0)
    compacted = history(objects, *WHERE, key_class="str", key=b"key-001")
    young = sum(time.as_py() >= 1100 << 16 for time in full.column("timestamp"))
    assert compacted.equals(full.slice(0, young + 1))
    assert len(read_rows(objects, live_objects(objects, PLACE)[0])) < 200
    assert coverage(objects, PLACE, LOG).last == 200
