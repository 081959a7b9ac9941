"""The fence of leases: a reader stands still at any step, another takes its applications over, and nothing of the first lands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ClusterUnreachable, CommitUnknown
from kvwal.spark import leases
from kvwal.spark.leases import SWEEP_SECONDS, LeasedRecords, Leases
from kvwal.spark.state import LeaseLost
from kvwal.spark.state.lease import LEASE_SECONDS
from tests.support.event_logs import TASKS, counts, event_log
from tests.support.threads import Standstill
from tests.unit.follower.test_follower import Setting, setting

__all__ = ["setting"]
APP = "app-1"


class StandsStill(Standstill):
    """A map whose user stands still once, at a call of the map."""

    def __init__(self, records: Any, step: int, meanwhile: Callable[[], None], *, after: bool) -> None:
        super().__init__(step, meanwhile, after=after)
        self._records = records

    def get(self, key: str, default: Any = None) -> Any:
        return self.call(lambda: self._records.get(key, default))

    def scan(self, prefix: str) -> list[tuple[str, Any]]:
        return list(self.call(lambda: self._records.scan(prefix)))

    def commit_if(self, conditions: Any, items: Any, deletes: Iterable[Any] = ()) -> Any:
        return self.call(lambda: self._records.commit_if(conditions, items, deletes))

    def put_many(self, entries: dict[str, Any]) -> Any:
        return self.call(lambda: self._records.put_many(entries))


def recorded(records: Any) -> dict[str, Any]:
    """The records of the application, and its lease."""
    return {key: value for key, value in records.items() if key.startswith((f"{APP}/", "=", "!lease/"))}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_follower_that_stood_still_at_any_step_lands_nowhere_once_another_reads_on(
    setting: Setting, after: bool
) -> None:
    log = setting.logs / f"{APP}.inprogress"
    step, taken_over, lost = 0, 0, 0
    while True:
        setting.records.clear()
        log.write_bytes(event_log(APP, 2, ended=False))
        found: dict[str, Any] = {}

        def take_over(found: dict[str, Any] = found) -> None:
            log.write_bytes(event_log(APP, 9, ended=False))
            heir = setting.follower()
            for _ in range(8):
                heir.round()
                setting.clock.now += 10
            heir.round()
            found |= recorded(setting.records)

        stale = setting.follower(stands_still := StandsStill(setting.records, step, take_over, after=after))
        try:
            stale.round()
            log.write_bytes(event_log(APP, 3, ended=False))
            stale.round()
        except LeaseLost:
            lost += 1
        if not stands_still.is_over:
            break
        assert counts(setting.records, APP) == ("RUNNING", 9, 9 * TASKS, 9), step
        assert recorded(setting.records) == found, step
        taken_over += 1
        step += 1
    assert taken_over > 10
    assert lost > 3


class Late:
    """The way of one reader to the map. While `is_late`, a transaction is on its way for long, and its answer is lost."""

    def __init__(self, records: Any) -> None:
        self.get, self.scan = records.get, records.scan
        self.is_late = False
        self.sent: list[Callable[[], bool]] = []
        self._records = records

    def commit_if(self, conditions: Any, items: Any, deletes: Iterable[Any] = ()) -> bool:
        pairs, gone = dict(items), list(deletes)
        if not self.is_late:
            return bool(self._records.commit_if(conditions, pairs, gone))
        self.sent.append(lambda: self._records.commit_if(conditions, pairs, gone))
        raise CommitUnknown("the answer was lost")


def late_transaction(setting: Setting) -> tuple[Leases, Late]:
    """A reader that holds the application, whose transaction of position 100 is on its way."""
    way = Late(setting.records)
    reader = Leases(way, setting.clock)
    assert reader.take(APP)
    way.is_late = True
    with pytest.raises(CommitUnknown):
        reader.commit(APP, {f"{APP}/log": 100})
    way.is_late = False
    assert way.sent
    return reader, way


def test_a_transaction_that_arrives_late_does_not_undo_the_next_one_of_the_same_reader(setting: Setting) -> None:
    reader, way = late_transaction(setting)
    reader.commit(APP, {f"{APP}/log": 200})
    assert [send() for send in way.sent] == [False] * len(way.sent)
    assert setting.records[f"{APP}/log"] == 200


@pytest.mark.parametrize("knows", [True, False], ids=["knows that it ended", "sees it silent"])
def test_a_transaction_that_arrives_late_does_not_undo_what_the_next_reader_wrote(
    setting: Setting, knows: bool
) -> None:
    reader, way = late_transaction(setting)
    heir = Leases(setting.records, setting.clock, [reader.holder] if knows else [])
    if not knows:
        assert not heir.take(APP)
        setting.clock.now += LEASE_SECONDS + 1
    assert heir.take(APP)
    heir.commit(APP, {f"{APP}/log": 200})
    assert [send() for send in way.sent] == [False] * len(way.sent)
    assert setting.records[f"{APP}/log"] == 200
    with pytest.raises(LeaseLost, match="nothing was written"):
        reader.commit(APP, {f"{APP}/log": 100})
    assert f"!follower/{reader.holder}" not in setting.records


def test_a_reader_goes_on_when_another_asks_for_its_lease_between_two_transactions(setting: Setting) -> None:
    holder, asker = Leases(setting.records, setting.clock), Leases(setting.records, setting.clock)
    assert holder.take(APP)
    assert not asker.request(APP)
    LeasedRecords(setting.records, holder, APP).put_many({f"{APP}/log": 1})
    assert holder.is_wanted(APP)
    holder.release(APP)
    assert asker.request(APP)
    with pytest.raises(LeaseLost, match=f"the application {APP}"):
        holder.commit(APP, {f"{APP}/log": 2})
    assert setting.records[f"{APP}/log"] == 1


@pytest.mark.parametrize("error", [ClusterUnreachable("away"), CommitUnknown("away"), LeaseLost("lost")], ids=repr)
def test_a_reader_whose_store_is_away_gives_nothing_back(setting: Setting, error: Exception) -> None:
    """Each call to the store would wait for it."""
    reader = Leases(setting.records, setting.clock)
    assert reader.take(APP)
    with pytest.raises(type(error)), reader:
        raise error
    assert set(setting.records) == {f"!follower/{reader.holder}", f"!lease/{APP}"}


def test_a_reader_that_fails_otherwise_gives_its_leases_back(setting: Setting) -> None:
    reader = Leases(setting.records, setting.clock)
    assert reader.take(APP)
    with pytest.raises(ZeroDivisionError), reader:
        raise ZeroDivisionError
    assert not setting.records


def test_records_of_readers_that_have_ended_go_with_their_leases(setting: Setting) -> None:
    """Those of every version: of a reader of an earlier one there is a number. Nobody reads its application on."""
    ended = [Leases(setting.records, setting.clock) for _ in range(3)]
    for number, reader in enumerate(ended):
        assert reader.take(f"app-{number}")
    setting.records.put_many({
        "!follower/00000000000000aa": {"kind": "follower", "number": 7},
        "!lease/app-9": {"kind": "lease", "holder": "00000000000000aa"},
    })  # fmt: skip
    living, sweeper = Leases(setting.records, setting.clock), Leases(setting.records, setting.clock)
    assert living.take("app-8")
    for _ in range(3):
        setting.clock.now += SWEEP_SECONDS / 2
        living.beat()
        sweeper.beat()
        setting.clock.now += SWEEP_SECONDS / 2
        living.beat()
        sweeper.beat()
    left = {key for key in setting.records if key.startswith(("!follower/", "!lease/"))}
    assert left == {f"!follower/{living.holder}", f"!follower/{sweeper.holder}", "!lease/app-8"}
    living.commit("app-8", {"app-8/log": 1})
    with pytest.raises(LeaseLost):
        ended[0].commit("app-0", {"app-0/log": 1})
    assert "app-0/log" not in setting.records
    living.close()
    sweeper.close()
    assert not [key for key in setting.records if key.startswith("!")]


def test_a_reader_that_is_swept_at_any_step_gets_no_lease_that_names_nobody(setting: Setting) -> None:
    """A sweep deletes a record and a lease only if both are as it saw them."""
    for step in range(6):
        setting.records.clear()
        reader = Leases(setting.records, setting.clock)
        reader.beat()

        def beat(reader: Leases = reader) -> None:
            setting.clock.now += leases.BEAT_SECONDS
            reader.take(APP)

        sweeper = Leases(StandsStill(setting.records, step, beat, after=True), setting.clock)
        sweeper._sweep()
        setting.clock.now += LEASE_SECONDS + 1
        reader.beat()
        sweeper._sweep()
        reader.take(APP)
        reader.commit(APP, {f"{APP}/log": step})
        assert setting.records[f"{APP}/log"] == step


def test_a_lease_of_an_earlier_version_is_read_and_taken_over(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        records = store.map("spark")
        records["!follower/00000000000000aa"] = {"kind": "follower", "number": 7}
        records[f"!lease/{APP}"] = {"kind": "lease", "holder": "00000000000000aa"}
        clock = Setting(store, tmp_path).clock
        heir = Leases(records, clock)
        assert not heir.take(APP)
        clock.now += LEASE_SECONDS / 2
        records["!follower/00000000000000aa"] = {"kind": "follower", "number": 8}
        assert not heir.take(APP)
        clock.now += LEASE_SECONDS - 1
        assert not heir.take(APP)
        clock.now += 2
        assert heir.take(APP)
        assert "!follower/00000000000000aa" not in records
