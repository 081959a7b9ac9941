"""One log a node's name: registration, fencing, taking over."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvwal_archive import registry
from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ConfigError, InvalidName
from kvwal_archive.layout import Span, registration_key
from kvwal_archive.objects import LocalObjects, Objects, open_objects
from kvwal_archive.reader import coverage, live_objects
from kvwal_archive.registry import Earlier
from kvwal_archive.writer import put_segment
from tests.support.archive.history import PLACE, fill, place, put, rows, table


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path))


def test_a_fresh_place_has_no_owner(objects: Objects) -> None:
    assert registry.owner(objects, PLACE) is None
    assert registry.registered(objects, "ns", "local") == []


def test_the_first_log_registers_and_may_do_so_again(objects: Objects) -> None:
    registry.register(objects, PLACE, "log-1", restored_from={"node-0": 7})
    registry.register(objects, PLACE, "log-1")
    found = registry.owner(objects, PLACE)
    assert found is not None
    assert (found.log_id, found.number, found.from_sequence, found.restored_from) == ("log-1", 1, 1, {"node-0": 7})


def test_another_log_may_not_write_under_the_same_name(objects: Objects) -> None:
    registry.register(objects, PLACE, "log-1")
    with pytest.raises(ConfigError, match=r"belongs to another log.*take-over"):
        registry.register(objects, PLACE, "log-2")
    with pytest.raises(ConfigError, match="belongs to another log"):
        put(objects, PLACE, 1, 3, "log-2")


def test_a_log_must_register_before_it_writes(objects: Objects) -> None:
    with pytest.raises(ConfigError, match=r"no log is registered .*Register"):
        put(objects, PLACE, 1, 3)


def test_taking_over_continues_the_lineage_and_fences_the_old_log(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 100)], "log-1")
    registry.take_over(objects, PLACE, "log-2", 101)
    with pytest.raises(ConfigError, match=r"took over .* from sequence 101 on, and fenced this one"):
        registry.register(objects, PLACE, "log-1")
    with pytest.raises(ConfigError, match="took over"):
        put(objects, PLACE, 101, 150, "log-1")
    put(objects, PLACE, 101, 120, "log-2")
    found = registry.owner(objects, PLACE)
    assert found is not None
    assert (found.number, found.previous) == (2, [Earlier("log-1", 100)])
    assert coverage(objects, PLACE, "log-2").last == 120
    assert coverage(objects, PLACE, "log-1").last == 100


def test_what_a_fenced_log_put_too_late_does_not_count(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 100), (101, 150)], "log-1")
    registry.take_over(objects, PLACE, "log-2", 101)
    put(objects, PLACE, 101, 130, "log-2")
    assert [info.span for info in live_objects(objects, PLACE)] == [Span(1, 100), Span(101, 130)]


def test_a_foreign_object_that_covers_more_supersedes_nothing(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 100), (1, 150)], "log-1")
    registry.take_over(objects, PLACE, "log-2", 101)
    assert [info.span for info in live_objects(objects, PLACE)] == [Span(1, 100)]


def test_being_fenced_between_the_check_and_the_put_is_noticed(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(objects, PLACE, [(1, 100)], "log-1")
    real_confirm = LocalObjects.confirm

    def confirm(self: LocalObjects, key: str, data: bytes) -> None:
        real_confirm(self, key, data)
        if key.endswith(".parquet"):
            registry.take_over(self, PLACE, "log-2", 101)

    monkeypatch.setattr(LocalObjects, "confirm", confirm)
    with pytest.raises(ConfigError, match="took over"):
        put(objects, PLACE, 101, 150, "log-1")


def test_taking_over_twice_is_once(objects: Objects) -> None:
    registry.register(objects, PLACE, "log-1")
    registry.take_over(objects, PLACE, "log-2", 11)
    registry.take_over(objects, PLACE, "log-2", 11)
    assert [item.key for item in objects.list("")] == [registration_key(PLACE, 1), registration_key(PLACE, 2)]


def test_one_of_two_take_overs_fails(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register(objects, PLACE, "log-1")
    real_put = LocalObjects.put_if_absent

    def put_if_absent(self: LocalObjects, key: str, data: bytes) -> bool:
        monkeypatch.undo()
        registry.take_over(self, PLACE, "log-3", 11)
        return real_put(self, key, data)

    monkeypatch.setattr(LocalObjects, "put_if_absent", put_if_absent)
    with pytest.raises(ConfigError, match="belongs to another log"):
        registry.take_over(objects, PLACE, "log-2", 11)
    found = registry.owner(objects, PLACE)
    assert found is not None
    assert found.log_id == "log-3"


def test_the_takeovers_are_counted_as_numbers(objects: Objects) -> None:
    registry.register(objects, PLACE, "log-1")
    for number in range(2, 12):
        registry.take_over(objects, PLACE, f"log-{number}", 10 * number)
    found = registry.owner(objects, PLACE)
    assert found is not None
    assert (found.log_id, found.number, len(found.previous)) == ("log-11", 11, 10)
    assert found.range_of("log-3") == (30, 39)
    assert found.range_of("log-11") == (110, None)
    assert found.range_of("stranger") is None


def test_there_must_be_something_to_take_over(objects: Objects) -> None:
    with pytest.raises(ConfigError, match="nothing to take over"):
        registry.take_over(objects, PLACE, "log-2", 1)
    registry.register(objects, PLACE, "log-1")
    registry.take_over(objects, PLACE, "log-2", 50)
    with pytest.raises(ConfigError, match="begins at sequence 50"):
        registry.take_over(objects, PLACE, "log-3", 40)


def test_a_store_that_overwrites_cannot_hold_an_archive(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    real_put = LocalObjects.put_if_absent

    def overwrite(self: LocalObjects, key: str, data: bytes) -> bool:
        self.delete(key)
        return real_put(self, key, data)

    monkeypatch.setattr(LocalObjects, "put_if_absent", overwrite)
    with pytest.raises(ConfigError, match="overwrites an object"):
        registry.register(objects, PLACE, "log-1")


@pytest.mark.parametrize(
    ("raw", "error", "says"),
    [
        (b"", ArchiveDamaged, "cannot be read"),
        (b"\xff", ArchiveDamaged, "cannot be read"),
        (b"[]", ArchiveDamaged, "cannot be read"),
        (b'{"format":1}', ArchiveDamaged, "cannot be read"),
        (b'{"format":2,"log_id":"log-1"}', ArchiveError, "newer version: format 2"),
    ],
)
def test_a_registration_that_cannot_be_read_is_named(
    objects: Objects, raw: bytes, error: type[ArchiveError], says: str
) -> None:
    objects.put_if_absent(registration_key(PLACE, 1), raw)
    with pytest.raises(error, match=f"{registration_key(PLACE, 1)}: .*{says}"):
        registry.owner(objects, PLACE)


def test_no_flipped_bit_of_a_registration_is_taken_for_another(objects: Objects) -> None:
    """One in the log_id would make every object foreign, and a restore without them would be empty."""
    fill(objects, PLACE, [(1, 10)], "log-1")
    registry.take_over(objects, PLACE, "log-2", 11)
    key = registration_key(PLACE, 2)
    whole, found = objects.read(key), registry.owner(objects, PLACE)
    for at, bit in ((at, bit) for at in range(len(whole)) for bit in range(8)):
        objects.delete(key)
        objects.put_if_absent(key, whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        try:
            assert msgspec.structs.replace(registry.owner(objects, PLACE), crc="") == msgspec.structs.replace(
                found, crc=""
            )
        except ArchiveError:
            continue


def test_objects_without_a_registration_are_not_passed_over(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 10)], "log-1")
    objects.delete(registration_key(PLACE, 1))
    assert registry.registered(objects, "ns", "local") == [PLACE]
    for read in (lambda: live_objects(objects, PLACE), lambda: coverage(objects, PLACE, "log-1")):
        with pytest.raises(ArchiveDamaged, match=r"no `_log` says .* registers again"):
            read()
    registry.register(objects, PLACE, "log-1")
    assert coverage(objects, PLACE, "log-1").last == 10


def test_registered_lists_places_of_one_business_or_of_all(objects: Objects) -> None:
    for where in (place("b"), place("a"), place("a", "other")):
        registry.register(objects, where, "log-1")
    assert registry.registered(objects, "ns", "local", "jobs") == [place("a"), place("b")]
    assert registry.registered(objects, "ns", "local") == [place("a"), place("b"), place("a", "other")]
    assert registry.registered(objects, "ns", "other") == []
    with pytest.raises(InvalidName, match="namespace"):
        registry.registered(objects, "..", "local")


def test_the_key_of_another_log_is_not_taken_for_ours(objects: Objects) -> None:
    """Though the registration that says whose it was is gone."""
    fill(objects, PLACE, [(1, 100), (101, 150)], "log-1")
    objects.delete(registration_key(PLACE, 1))
    registry.register(objects, PLACE, "log-2")
    with pytest.raises(ConfigError, match="the same range of another log"):
        put(objects, PLACE, 101, 150, "log-2")


def test_what_a_fenced_log_put_late_gives_way(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 100)], "log-1")
    late = table(rows(101, 150))
    put_segment(objects, PLACE, Span(101, 150), late, log_id="log-1", previous_crc=100, seal_crcs=[150])
    registry.take_over(objects, PLACE, "log-2", 101)
    put_segment(objects, PLACE, Span(101, 150), late, log_id="log-2", previous_crc=100, seal_crcs=[151])
    found = coverage(objects, PLACE, "log-2")
    assert (found.last, found.seal_crc) == (150, 151)
    with pytest.raises(ConfigError, match="took over"):
        put_segment(objects, PLACE, Span(101, 150), late, log_id="log-1", previous_crc=100, seal_crcs=[150])
    assert coverage(objects, PLACE, "log-2").seal_crc == 151
