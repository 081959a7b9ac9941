"""Bases: which one a read begins with, what one keeps, half ones, and what gc and verify make of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from kvwal_archive import registry
from kvwal_archive.bases import build
from kvwal_archive.bases.check import verify_bases
from kvwal_archive.bases.collect import gc_bases
from kvwal_archive.bases.local import make_base
from kvwal_archive.bases.record import Base
from kvwal_archive.bases.select import LogRead, newest_base
from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ArchiveGap, ConfigError
from kvwal_archive.layout import Place, Span, base_folder
from kvwal_archive.maintenance.compaction import rewrite
from kvwal_archive.maintenance.remove_log import LogEnd, remove_log
from kvwal_archive.merge import Row, latest_plain
from kvwal_archive.objects import LocalObjects, Objects, open_objects
from kvwal_archive.restore import restore_batches
from kvwal_archive.view import latest, parts
from kvwal_archive.writer import put_segment
from tests.support.archive.history import LOG, PLACE, fill, from_table, object_paths, place, put, rows, table

WHERE = (PLACE.namespace, PLACE.cluster, PLACE.business)
FOLDER = base_folder(*WHERE)
A, B = place("a"), place("b")
LATER = 1 << 48


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    found = open_objects(str(tmp_path / "archive"))
    assert isinstance(found, LocalObjects)
    return found


def change(key: bytes, ms: int, sequence: int, *, node: str = "a", value: bytes | None = b"1") -> Row:
    """A put, or a delete without a value."""
    return Row("str", key, value or b"", "int" if value else "", value is None, ms << 16, 0, node, sequence)


def archive_rows(objects: Objects, where: Place, found: list[Row], log_id: str = LOG) -> None:
    """Archive the rows as the next object of the node."""
    first, last = found[0].sequence, found[-1].sequence
    put_segment(
        objects, where, Span(first, last), table(found), log_id=log_id, previous_crc=first - 1, seal_crcs=[last]
    )


def chosen(objects: Objects, at: int | None = None, **up_to: int | None) -> Base | None:
    """The base with which a read begins; with `up_to` one of these nodes only."""
    found = parts(objects, *WHERE, up_to or None)
    return newest_base(objects, WHERE, {part.place.node: LogRead(part.infos, part.up_to) for part in found}, at)


def told(objects: Objects, at: int | None = None) -> dict[bytes, bytes]:
    """The values that a read gives."""
    return {row.key: row.value for row in from_table(latest(objects, *WHERE, at=at)) if not row.deleted}


def test_a_read_begins_with_the_newest_base_and_goes_on_after_it(objects: LocalObjects, tmp_path: Path) -> None:
    for where in (A, B):
        fill(objects, where, [(1, 30), (31, 60)])
    base = make_base(objects, *WHERE)
    assert {node: position.sequence for node, position in base.positions.items()} == {"a": 60, "b": 60}
    put(objects, A, 61, 70)
    for path in object_paths(tmp_path / "archive" / A.prefix)[:2]:
        damage(path, at=40)  # the rows of objects that the base holds are not read
    logged = [*rows(1, 70, node="a"), *rows(1, 60, node="b")]
    assert from_table(latest(objects, *WHERE)) == latest_plain(logged)
    result = restore_batches(objects, *WHERE)
    assert [row for batch in result.batches for row in from_table(batch)] == latest_plain(logged)
    assert result.positions == {"a": 70, "b": 60}
    assert result.max_timestamp == max(row.timestamp for row in logged)
    with pytest.raises(ArchiveDamaged):
        latest(objects, *WHERE, at=base.timestamp - 1)  # before the base: all objects are read


def damage(path: Path, *, at: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_a_base_is_made_once_and_the_next_one_begins_with_it(objects: LocalObjects) -> None:
    fill(objects, A, [(1, 30)])
    first = make_base(objects, *WHERE)
    assert make_base(objects, *WHERE) == first
    put(objects, A, 31, 40)
    inputs = build.base_inputs(objects, WHERE)
    assert [info.key for info in inputs.infos()] == [first.part_key(first.parts[0]), object_keys(objects)[-1]]
    second = make_base(objects, *WHERE)
    assert second.positions["a"].sequence == 40
    assert chosen(objects) == second
    assert chosen(objects, a=39) == first
    assert chosen(objects, at=first.timestamp) == first
    assert chosen(objects, a=29) is chosen(objects, at=1) is None


def object_keys(objects: Objects) -> list[str]:
    return [item.key for item in objects.list(f"{A.prefix}/0")]


def test_a_read_of_other_nodes_than_those_of_the_base_reads_objects(objects: LocalObjects) -> None:
    fill(objects, A, [(1, 30)])
    of_one = make_base(objects, *WHERE)
    fill(objects, B, [(1, 30)])
    assert chosen(objects) == of_one  # the base says nothing of b, whose log is read from its beginning
    assert from_table(latest(objects, *WHERE)) == latest_plain([*rows(1, 30, node="a"), *rows(1, 30, node="b")])
    of_both = make_base(objects, *WHERE)
    assert chosen(objects) == of_both
    assert chosen(objects, a=None) == of_one
    assert chosen(objects, b=None) is None


def test_a_delete_stays_in_a_base_until_its_history_is_over_and_every_node_has_passed_it(objects: LocalObjects) -> None:
    """A node that lags, or one that is restored as it was, may still archive an older put of the key."""
    for where in (A, B):
        registry.register(objects, where, LOG)
    archive_rows(objects, A, [change(b"k", 10, 1), change(b"k", 20, 2, value=None), change(b"x", 90, 3)])
    archive_rows(objects, B, [change(b"y", 5, 1, node="b")])
    rewrite(objects, A, now_ms=50, history_ms=0, force=True)
    make_base(objects, *WHERE)
    archive_rows(objects, B, [change(b"k", 15, 2, node="b"), change(b"z", 95, 3, node="b")])
    assert told(objects) == {b"x": b"1", b"y": b"1", b"z": b"1"}
    make_base(objects, *WHERE)
    assert {row.key for row in from_table(latest(objects, *WHERE))} == {b"x", b"y", b"z"}  # now it went
    late = place("restored")
    registry.register(objects, late, LOG)
    archive_rows(objects, A, [change(b"y", 91, 4, value=None)])
    make_base(objects, *WHERE)
    archive_rows(objects, late, [change(b"y", 80, 1, node="restored")])
    assert told(objects) == {b"x": b"1", b"z": b"1"}


def test_a_delete_of_the_kept_history_stays_for_a_node_that_is_restored_as_of_before(objects: LocalObjects) -> None:
    registry.register(objects, A, LOG)
    archive_rows(objects, A, [change(b"k", 10, 1), change(b"k", 20, 2, value=None), change(b"x", 90, 3)])
    make_base(objects, *WHERE)
    assert told(objects, at=15 << 16) == {b"k": b"1"}
    registry.register(objects, B, LOG)
    archive_rows(objects, B, [change(b"k", 10, 1, node="b")])
    assert told(objects) == {b"x": b"1"}


def test_rows_of_the_base_are_skipped_in_an_object_that_reaches_over_its_position(objects: LocalObjects) -> None:
    """The base has let go of the delete that shadows one of them."""
    for where in (A, B):
        registry.register(objects, where, LOG)
    archive_rows(objects, A, [change(b"x", 10, 1), change(b"x", 11, 2), change(b"k", 20, 3, value=None)])
    archive_rows(objects, A, [change(b"y", 90, 4)])
    archive_rows(objects, B, [change(b"k", 5, 1, node="b"), change(b"z", 91, 2, node="b")])
    rewrite(objects, A, now_ms=50, history_ms=0, force=True)
    base = make_base(objects, *WHERE)
    archive_rows(objects, B, [change(b"u", 92, 3, node="b")])
    rewrite(objects, B, now_ms=1, history_ms=0, force=True)
    (reaching,) = [info for part in parts(objects, *WHERE, {"b": None}) for info in part.infos]
    assert reaching.span == (1, 3, 0)
    assert chosen(objects) == base
    assert b"k" not in {row.key for part in base.parts for row in rows_of(objects, base.part_key(part))}
    assert told(objects) == {b"u": b"1", b"x": b"1", b"y": b"1", b"z": b"1"}


def rows_of(objects: Objects, key: str) -> list[Row]:
    import pyarrow.parquet as pq

    return [Row(**row, node="") for row in pq.read_table(io.BytesIO(objects.read(key))).to_pylist()]


def test_a_base_is_over_when_a_delete_after_it_is_compacted_away(objects: LocalObjects) -> None:
    registry.register(objects, A, LOG)
    archive_rows(objects, A, [change(b"k", 10, 1), change(b"x", 11, 2)])
    base = make_base(objects, *WHERE)
    archive_rows(objects, A, [change(b"k", 20, 3, value=None), change(b"y", 90, 4)])
    rewrite(objects, A, now_ms=15, history_ms=0, force=True)
    assert chosen(objects) == base
    rewrite(objects, A, now_ms=50, history_ms=0, force=True)
    assert chosen(objects) is None
    assert told(objects) == {b"x": b"1", b"y": b"1"}
    newer = make_base(objects, *WHERE)
    assert gc_bases(objects, *WHERE, now_ms=LATER, grace_ms=0) == files_of(base)
    assert chosen(objects) == newer


def files_of(base: Base) -> list[str]:
    return [base.key, *(base.part_key(part) for part in base.parts)]


def test_a_base_is_over_also_if_an_earlier_compaction_had_used_a_later_horizon(objects: LocalObjects) -> None:
    """The delete is archived late: it is older than the horizon of the objects that the base was made of."""
    registry.register(objects, A, LOG)
    archive_rows(objects, A, [change(b"k", 10, 1), change(b"k", 20, 2)])
    rewrite(objects, A, now_ms=1000, history_ms=0, force=True)
    base = make_base(objects, *WHERE)
    assert chosen(objects) == base
    archive_rows(objects, A, [change(b"k", 500, 3, value=None), change(b"z", 600, 4)])
    rewrite(objects, A, now_ms=900, history_ms=0, force=True)
    assert chosen(objects) is None
    assert told(objects) == {b"z": b"1"}


@pytest.mark.parametrize(("ms", "counts"), [(7, False), (800, True)])
def test_a_base_is_over_when_a_node_comes_with_entries_of_before(objects: LocalObjects, ms: int, counts: bool) -> None:
    """The base has let go of a delete that shadows one of them."""
    for where in (A, B):
        registry.register(objects, where, LOG)
    archive_rows(objects, A, [change(b"k", 10, 1), change(b"k", 20, 2, value=None), change(b"z", 900, 3)])
    archive_rows(objects, B, [change(b"k", 5, 1, node="b"), change(b"y", 900, 2, node="b")])
    rewrite(objects, A, now_ms=800, history_ms=0, force=True)
    base = make_base(objects, *WHERE)
    late = place("late")
    registry.register(objects, late, LOG)
    archive_rows(objects, late, [change(b"k", ms, 1, node="late")])
    assert chosen(objects) == (base if counts else None)
    assert told(objects) == {b"y": b"1", b"z": b"1"} | ({b"k": b"1"} if counts else {})


def test_half_a_base_is_not_there(objects: LocalObjects) -> None:
    """Its maker is killed before each put in turn; the next one goes on with the parts that are there."""
    for where in (A, B):
        fill(objects, where, [(1, 60)])
    expected = from_table(latest(objects, *WHERE))
    for puts in range(3):
        with pytest.raises(Killed):
            make_base(KilledAfter(objects, puts), *WHERE)
        assert len(objects.list(FOLDER)) == puts
        assert chosen(objects) is None
        assert from_table(latest(objects, *WHERE)) == expected
        assert verify_bases(objects, *WHERE).findings == []
    base = make_base(objects, *WHERE)
    assert chosen(objects) == base
    assert len(objects.list(FOLDER)) == 3
    assert from_table(latest(objects, *WHERE)) == expected


class Killed(BaseException):
    """The process is gone."""


class KilledAfter(LocalObjects):
    """A store in which the process is killed at the put after `puts` others, or `then` happens."""

    def __init__(self, objects: LocalObjects, puts: int, then: Callable[[], None] | None = None) -> None:
        super().__init__(objects.url)
        self._left = puts
        self._then = then

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See Objects.put_if_absent."""
        if self._left == 0:
            if self._then is None:
                raise Killed
            self._then()
        self._left -= 1
        return super().put_if_absent(key, data)


def test_parts_of_a_killed_maker_go_after_the_grace_period(objects: LocalObjects) -> None:
    fill(objects, A, [(1, 60)])
    with pytest.raises(Killed):
        make_base(KilledAfter(objects, 1), *WHERE)
    (part,) = objects.list(FOLDER)
    assert gc_bases(objects, *WHERE, now_ms=part.modified_ms + 999, grace_ms=1000) == []
    assert gc_bases(objects, *WHERE, now_ms=part.modified_ms + 1000, grace_ms=1000) == [part.key]


def test_a_base_that_took_longer_than_the_grace_period_is_made_again(objects: LocalObjects) -> None:
    fill(objects, A, [(1, 60)])

    def collect() -> None:
        gc_bases(objects, *WHERE, now_ms=LATER, grace_ms=0)

    with pytest.raises(ArchiveError, match=r"a part of .*json was removed before the base was whole\. Run it again"):
        make_base(KilledAfter(objects, 1, collect), *WHERE)
    assert objects.list(FOLDER) == []
    assert chosen(objects) is None
    assert make_base(objects, *WHERE) == chosen(objects)


def test_gc_removes_a_superseded_base_after_the_grace_period_of_the_newer_one(objects: LocalObjects) -> None:
    fill(objects, A, [(1, 30)])
    old = make_base(objects, *WHERE)
    put(objects, A, 31, 40)
    new = make_base(objects, *WHERE)
    made = next(item.modified_ms for item in objects.list(FOLDER) if item.key == new.key)
    assert gc_bases(objects, *WHERE, now_ms=made + 999, grace_ms=1000) == []
    assert gc_bases(objects, *WHERE, now_ms=made + 1000, grace_ms=1000) == files_of(old)
    assert chosen(objects) == new
    assert gc_bases(objects, *WHERE, now_ms=LATER, grace_ms=0) == []


def test_two_bases_of_the_same_moment_are_both_right(objects: LocalObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(objects, A, [(1, 60)], keys=20)
    expected = from_table(latest(objects, *WHERE))
    inputs = build.base_inputs(objects, WHERE)
    one = make_base(objects, *WHERE)
    monkeypatch.setattr(build, "base_inputs", lambda *_: inputs)
    monkeypatch.setattr("kvwal_archive.bases.local.base_inputs", lambda *_: inputs)
    monkeypatch.setattr(build, "PIECE_BYTES", 300)
    other = make_base(objects, *WHERE)
    assert one.id != other.id
    assert len(one.parts) == 1 < len(other.parts)
    for base in (one, other):
        objects.delete((other if base is one else one).key)
        assert chosen(objects) == base
        assert from_table(latest(objects, *WHERE)) == expected
        make_base(objects, *WHERE)


def test_a_base_of_a_log_that_was_fenced_before_it_is_not_read(objects: LocalObjects) -> None:
    fill(objects, A, [(1, 10), (11, 20)])
    short = newest = make_base(objects, *WHERE)
    put(objects, A, 21, 30)
    newest = make_base(objects, *WHERE)
    registry.take_over(objects, A, "log-2", 21)
    assert chosen(objects) == short
    archive_rows(objects, A, [change(b"new", 5000, 21)], log_id="log-2")
    assert chosen(objects) == short
    assert b"new" in told(objects)
    assert set(files_of(newest)) <= set(gc_bases(objects, *WHERE, now_ms=LATER, grace_ms=0))


def test_the_bases_of_a_business_go_with_its_last_log(objects: LocalObjects, tmp_path: Path) -> None:
    fill(objects, A, [(1, 10)])
    make_base(objects, *WHERE)
    assert remove_log(objects, A, LogEnd(LOG, 10, rows(10, 10, node="a")[0].timestamp), "dropped:none", "time:none")
    assert not [path for path in (tmp_path / "archive").rglob("*") if path.is_file()]


def test_a_base_without_one_of_its_parts_is_not_read_and_is_told(objects: LocalObjects) -> None:
    fill(objects, A, [(1, 30)])
    base = make_base(objects, *WHERE)
    objects.delete(base.part_key(base.parts[0]))
    assert chosen(objects) is None
    assert from_table(latest(objects, *WHERE)) == latest_plain(rows(1, 30, node="a"))
    assert [(fault.kind, fault.key) for fault in verify_bases(objects, *WHERE).findings] == [("base", base.key)]
    assert gc_bases(objects, *WHERE, now_ms=LATER, grace_ms=0) == [base.key]


@pytest.mark.parametrize("at", [40, -20])
def test_a_damaged_part_is_named(objects: LocalObjects, tmp_path: Path, at: int) -> None:
    fill(objects, A, [(1, 30)])
    base = make_base(objects, *WHERE)
    key = base.part_key(base.parts[0])
    path = tmp_path / "archive" / key
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArchiveDamaged, match=key):
        latest(objects, *WHERE)
    assert [(fault.kind, fault.key) for fault in verify_bases(objects, *WHERE).findings] == [("damaged", key)]
    objects.delete(base.key)
    assert from_table(latest(objects, *WHERE)) == latest_plain(rows(1, 30, node="a"))


@pytest.mark.parametrize("byte", [b'"sequence":30', b'"size":', b'"crc":"'])
def test_a_damaged_commit_is_named_and_says_what_to_do(objects: LocalObjects, tmp_path: Path, byte: bytes) -> None:
    fill(objects, A, [(1, 30)])
    base = make_base(objects, *WHERE)
    path = tmp_path / "archive" / base.key
    damage(path, at=path.read_bytes().index(byte) + len(byte) - 1)
    with pytest.raises(ArchiveDamaged, match=rf"{base.key}: .* delete this file"):
        latest(objects, *WHERE)
    assert [fault.kind for fault in verify_bases(objects, *WHERE).findings] == ["damaged"]
    assert gc_bases(objects, *WHERE, now_ms=LATER, grace_ms=0) == []


def test_a_base_of_a_newer_version_is_passed_over(objects: LocalObjects, tmp_path: Path) -> None:
    fill(objects, A, [(1, 30)])
    base = make_base(objects, *WHERE)
    path = tmp_path / "archive" / base.key
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2', 1))
    assert chosen(objects) is None
    assert from_table(latest(objects, *WHERE)) == latest_plain(rows(1, 30, node="a"))
    assert [fault.kind for fault in verify_bases(objects, *WHERE).findings] == ["newer"]
    assert gc_bases(objects, *WHERE, now_ms=LATER, grace_ms=0) == []


def test_what_no_base_can_be_made_of_is_told(objects: LocalObjects, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing of ns/local/jobs is archived.*kvwal archive run"):
        make_base(objects, *WHERE)
    fill(objects, A, [(1, 5), (6, 9), (10, 12)])
    object_paths(tmp_path)[1].unlink()
    with pytest.raises(ArchiveGap, match="sequences 6–9 are in no object"):
        make_base(objects, *WHERE)
    assert objects.list(FOLDER) == []
    assert gc_bases(objects, *WHERE, now_ms=LATER, grace_ms=0) == []


def test_a_part_is_an_object_that_every_parquet_reader_reads(objects: LocalObjects) -> None:
    fill(objects, A, [(1, 30)])
    base = make_base(objects, *WHERE)
    read = rows_of(objects, base.part_key(base.parts[0]))
    assert [row._replace(node="a") for row in read] == latest_plain(rows(1, 30, node="a"))
