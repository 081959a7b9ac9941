"""What a member that comes back makes once more, and what it leaves: over an archive with the logs of two, and a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kvwal.cluster.rejoin import WINDOW_MS, Identity, RejoinComparison, Value
from kvwal.entry import AWAY, TIMESTAMP_SHIFT
from kvwal.errors import ClusterUnreachable
from kvwal.key_class import DROPPED
from kvwal_archive import registry
from kvwal_archive.layout import Span
from kvwal_archive.merge import Row
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.writer import put_segment
from tests.support.archive.history import LOG, place, table

NOW = 1_700_000_000_000
BACK, OTHER = "back", "other"
SKEW_MS = 10


class Logs:
    """The archived logs of the business `jobs`. Times are in ms before now."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._last: dict[str, int] = {}

    def took(self, node: str, ago: int, key: str, value: str | None, *, ends: int = 0, key_class: str = "str") -> None:
        """A put of a node, or with None a delete."""
        first = node not in self._last
        number = self._last[node] = self._last.get(node, 0) + 1
        if first:
            registry.register(self.objects, place(node), LOG)
        row = Row(
            key_class, key.encode(), (value or "").encode(), "str" if value is not None else "", value is None,
            NOW - ago << TIMESTAMP_SHIFT, ends, node, number,
        )  # fmt: skip
        put_segment(
            self.objects, place(node), Span(number, number), table([row]), log_id=LOG, previous_crc=0, seal_crcs=[1]
        )


class HeldEntries:
    """A memory, whose keys a client may keep locked."""

    def __init__(self, **held: str) -> None:
        self.held = {("str", key.encode()): ("str", value.encode()) for key, value in held.items()}
        self.locked: list[Identity] = []
        self.of_client: Identity | None = None

    def read(self, business: str, key: Identity) -> Value | None:
        return self.held.get(key)

    def lock(self, business: str, key: Identity) -> None:
        if key == self.of_client:
            raise ClusterUnreachable("a client has locked it.", hint="")
        self.locked.append(key)

    def unlock(self) -> None:
        self.locked.clear()

    def compare_and_set(
        self, business: str, key: Identity, held: Value | None, value: Value | None, expires: int
    ) -> bool:
        assert key in self.locked
        if self.held.get(key) != held:
            return False
        if value is None:
            del self.held[key]
        else:
            self.held[key] = value
        return True

    def text(self) -> dict[str, str]:
        return {key.decode(): value.decode() for (_, key), (_, value) in self.held.items()}


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(open_objects(str(tmp_path)))


def returning(logs: Logs, memory: HeldEntries, *, logged_ago: int = 0) -> RejoinComparison:
    logged = NOW - logged_ago << TIMESTAMP_SHIFT
    return RejoinComparison(
        logs.objects, "ns", "local", BACK, memory, logged={"jobs": logged}, now_ms=NOW, skew_ms=SKEW_MS, mark=DROPPED,
        is_data=lambda name: name == "str",
    )  # fmt: skip


def compare(logs: Logs, memory: HeldEntries) -> int:
    """All of it, with nobody else about; how many changes were made."""
    found = returning(logs, memory)
    made = found.write_again(found.lock(found.suspects(NOW)))
    memory.unlock()
    return made["jobs"]


def test_what_only_this_log_has_is_made_once_more(logs: Logs) -> None:
    for key, value in (("put", "new"), ("changed", "new"), ("deleted", None), ("same", "same")):
        if key != "put":
            logs.took(OTHER, 9000, key, "same" if key == "same" else "old")
        logs.took(BACK, 100, key, value)
    memory = HeldEntries(changed="old", deleted="old", same="same")
    assert compare(logs, memory) == 3
    assert memory.text() == {"put": "new", "changed": "new", "same": "same"}
    assert compare(logs, memory) == 0


@pytest.mark.parametrize("after", ["newer", None])
def test_what_another_log_has_newer_stays(logs: Logs, after: str | None) -> None:
    logs.took(BACK, 100, "key", "alone")
    logs.took(OTHER, 50, "key", after)
    memory = HeldEntries(**({} if after is None else {"key": after}))
    assert compare(logs, memory) == 0
    assert memory.text().get("key") == after


def test_a_value_that_no_log_explains_stays(logs: Logs) -> None:
    logs.took(OTHER, 9000, "key", "old")
    logs.took(BACK, 100, "key", "alone")
    memory = HeldEntries(key="of somebody whose log is not in the archive")
    assert compare(logs, memory) == 0


@pytest.mark.parametrize("after", ["newer", None])
def test_what_a_log_shows_when_the_key_is_locked_counts(logs: Logs, after: str | None) -> None:
    """At the first look the archive did not have it yet, though memory did."""
    logs.took(BACK, 100, "key", "alone")
    logs.took(BACK, 100, "lacking", "alone")
    memory = HeldEntries()
    found = returning(logs, memory)
    suspects = found.suspects(NOW)
    left = found.lock(suspects)
    assert {locked.suspect.change.key for locked in left} == {b"key", b"lacking"}
    logs.took(OTHER, 50, "key", after)
    assert found.write_again(left) == {"jobs": 1}
    assert memory.text() == {"lacking": "alone"}


def test_what_memory_has_when_the_key_is_locked_counts(logs: Logs) -> None:
    logs.took(BACK, 100, "key", "alone")
    memory = HeldEntries()
    found = returning(logs, memory)
    suspects = found.suspects(NOW)
    memory.held["str", b"key"] = ("str", b"of a client")
    assert found.lock(suspects) == []


def test_what_a_call_that_heeds_no_lock_put_meanwhile_stays(logs: Logs) -> None:
    logs.took(BACK, 100, "key", "alone")
    memory = HeldEntries()
    found = returning(logs, memory)
    left = found.lock(found.suspects(NOW))
    memory.held["str", b"key"] = ("str", b"by put_all")
    assert found.write_again(left) == {}
    assert memory.text() == {"key": "by put_all"}


def test_what_a_destroyed_map_held_stays_away_and_what_came_later_does_not(logs: Logs) -> None:
    logs.took(BACK, 900, "before", "alone")
    logs.took(BACK, 500 - SKEW_MS // 2, "by another clock", "alone")
    logs.took(OTHER, 900, "later", "old")
    logs.took(OTHER, 500, "", "", key_class=DROPPED)
    logs.took(BACK, 100, "later", "alone")
    memory = HeldEntries()
    assert compare(logs, memory) == 1
    assert memory.text() == {"later": "alone"}


def test_a_mark_of_what_ended_while_it_was_away_holds_nothing_else_down(logs: Logs) -> None:
    logs.took(OTHER, 30_000, "", "", key_class=DROPPED)
    logs.took(BACK, 100, "late", "new")
    logs.took(BACK, 50, AWAY.decode(), "until and when", key_class=DROPPED)
    memory = HeldEntries()
    assert compare(logs, memory) == 1
    assert memory.text() == {"late": "new"}


def test_a_map_that_is_destroyed_between_the_two_looks_gets_nothing(logs: Logs) -> None:
    logs.took(BACK, 100, "key", "alone")
    memory = HeldEntries()
    found = returning(logs, memory)
    left = found.lock(found.suspects(NOW))
    logs.took(OTHER, 50, "", "", key_class=DROPPED)
    assert not found.write_again(left)


def test_what_it_logged_since_it_is_back_moves_nothing(logs: Logs) -> None:
    """Neither how far back it looks, nor what is compared: that came from a client, and memory has it or had it."""
    logs.took(BACK, 2 * WINDOW_MS, "alone", "alone")
    logs.took(BACK, 100, "since", "of a client that deleted it elsewhere")
    found = returning(logs, HeldEntries(), logged_ago=2 * WINDOW_MS)
    assert [suspect.change.key for suspect in found.suspects(NOW)] == [b"alone"]


@pytest.mark.parametrize("held", [{"key": "old"}, {}])
def test_an_expiring_entry_may_have_ended_for_its_holder(logs: Logs, held: dict[str, str]) -> None:
    logs.took(OTHER, 9000, "key", "old", ends=NOW + 5)
    logs.took(BACK, 100, "key", "alone")
    memory = HeldEntries(**held)
    assert compare(logs, memory) == 1
    assert memory.text() == {"key": "alone"}


def test_an_entry_that_has_ended_is_not_made_again(logs: Logs) -> None:
    logs.took(BACK, 100, "ended", "short", ends=NOW - 50)
    logs.took(OTHER, 9000, "was", "old")
    logs.took(BACK, 100, "was", "short", ends=NOW - 50)
    logs.took(BACK, 100, "lives", "long", ends=NOW + 9000)
    memory = HeldEntries(was="old")
    assert compare(logs, memory) == 2
    assert compare(logs, memory) == 0
    assert memory.text() == {"lives": "long"}


def test_how_far_back_it_looks(logs: Logs) -> None:
    """The last of its log in any case, and all since it was apart."""
    logs.took(BACK, 3 * WINDOW_MS, "before", "alone")
    logs.took(BACK, 2 * WINDOW_MS, "long ago", "alone")
    logs.took(BACK, 100, "last", "alone")
    assert [found.change.key for found in returning(logs, HeldEntries()).suspects(NOW)] == [b"last"]
    apart = NOW - 2 * WINDOW_MS - 1
    assert {found.change.key for found in returning(logs, HeldEntries()).suspects(apart)} == {b"long ago", b"last"}


def test_a_key_that_a_client_keeps_locked_lets_the_others_go(logs: Logs) -> None:
    for key in ("a", "b", "c"):
        logs.took(BACK, 100, key, "alone")
    memory = HeldEntries()
    memory.of_client = ("str", b"b")
    found = returning(logs, memory)
    suspects = sorted(found.suspects(NOW))
    with pytest.raises(ClusterUnreachable, match="locked"):
        found.lock(suspects)
    assert memory.locked == [("str", b"a")]


def test_a_member_without_a_log_of_it_has_nothing_to_compare(logs: Logs) -> None:
    logs.took(OTHER, 100, "key", "new")
    assert returning(logs, HeldEntries(key="new")).suspects(NOW) == []


def test_the_keys_are_not_hashed_anew_for_each_batch_of_the_archive(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty objects of one row each: Arrow would hash the forty keys forty times."""
    hashed: list[int] = []
    is_in = pc.is_in

    def counted(column: Any, *, value_set: Any) -> Any:
        if pa.types.is_binary(value_set.type):
            hashed.append(len(value_set))
            assert len(value_set) <= len(column)
        return is_in(column, value_set=value_set)

    monkeypatch.setattr(pc, "is_in", counted)
    for number in range(40):
        logs.took(OTHER, 9000 - number, f"key-{number}", "old")
        logs.took(BACK, 100 - number, f"key-{number}", "new")
    memory = HeldEntries(**{f"key-{number}": "old" for number in range(40)})
    assert compare(logs, memory) == 40
    assert set(memory.text().values()) == {"new"}
    assert sum(hashed) < 40 * 5
