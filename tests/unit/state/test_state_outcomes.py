"""State that jobs keep, when the store's answers are lost or late: no call says more than it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.spark.state import Lease
from kvwal.spark.state.ledger import RunMark
from kvwal.spark.state.records import exchange, plain
from kvwal.structures.map.map import Map

RECORD = "!ledger/lease/outcome"
TRIES = 3


class Link:
    """The way to a map. A transaction with a fate has no answer; the fate says what happens to it."""

    def __init__(self, jobs: Map) -> None:
        self.get = jobs.get
        self.fates: list[Callable[[Callable[[], bool]], object]] = []
        self._jobs = jobs

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        pairs = list(items.items() if isinstance(items, Mapping) else items)
        gone = list(deletes)

        def send() -> bool:
            return self._jobs.commit_if(conditions, pairs, gone)

        if not self.fates:
            return send()
        self.fates.pop(0)(send)
        raise kvwal.CommitUnknown("the answer was lost")


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Map]:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        yield store.map("jobs")


@pytest.mark.parametrize("before", [None, RunMark("before")], ids=["absent", "there"])
def test_a_condition_that_fails_after_an_unknown_try_is_no_refusal(jobs: Map, before: RunMark | None) -> None:
    """A member applies a decided transaction key by key: the condition's key may have its new value before the record has."""
    link = Link(jobs)
    jobs["other"] = 1
    if before is not None:
        jobs[RECORD] = plain(before)
    link.fates = [lambda send: jobs.put("other", 2)]
    with pytest.raises(kvwal.CommitUnknown):
        exchange(link, RECORD, before, RunMark("new"), {"other": 2}, others={"other": 1})
    assert not exchange(link, RECORD, before, RunMark("new"), {"other": 2}, others={"other": 1}), (
        "the first try of a call knows"
    )


def test_a_release_after_a_renewal_that_arrived_late_releases(jobs: Map) -> None:
    link, late = Link(jobs), []
    lease = Lease(link, "outcome")
    assert lease.take()
    link.fates = [late.append] * TRIES
    with pytest.raises(kvwal.CommitUnknown):
        lease.renew()
    assert [send() for send in late] == [True, False, False]
    lease.release()
    assert (jobs[RECORD]["holder"], lease.token) == ("", 0)


def test_a_release_of_unknown_outcome_can_be_called_again(jobs: Map) -> None:
    link = Link(jobs)
    lease = Lease(link, "outcome")
    assert lease.take()
    link.fates = [lambda send: None] * TRIES
    with pytest.raises(kvwal.CommitUnknown):
        lease.release()
    lease.release()
    assert (jobs[RECORD]["holder"], lease.token) == ("", 0)


def test_a_release_changes_nothing_once_another_holder_has_the_lease(jobs: Map) -> None:
    lease, heir = Lease(jobs, "outcome"), Lease(jobs, "outcome")
    assert lease.take()
    jobs.delete(RECORD)
    assert heir.take()
    lease.release()
    assert (jobs[RECORD]["holder"], lease.token) == (heir.holder, 0)
    heir.renew()


def test_the_token_grows_for_a_holder_whose_record_was_deleted(jobs: Map) -> None:
    lease = Lease(jobs, "outcome")
    assert lease.take()
    jobs.delete(RECORD)
    assert lease.take()
    assert lease.token == 2
