"""Laws of fenced leases, for holders that stand still and writes that arrive late.

No write is accepted under a smaller token than that of a write before it, each counts once, and what was acknowledged is there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import kvwal
from kvwal.ports.clock import SystemClock
from kvwal.spark.state import Lease, LeaseLost
from kvwal.structures.map.map import Map
from tests.support.chance import examples

HOLDERS = 3
SECONDS = 60.0
NAME = "!ledger/lease/law"
HOLDER = st.integers(0, HOLDERS - 1)


class HandClock(SystemClock):
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 0.0

    def elapsed(self) -> float:
        return self.now


class Link:
    """The way of one holder to the map. An answer can be lost, and a transaction can be on its way for long."""

    def __init__(self, jobs: Map) -> None:
        self.get = jobs.get
        self.accepted: list[tuple[int, str]] = []
        """Token and name of each write that the store has accepted, of all holders."""
        self.late: list[Any] = []
        self.next: list[str] = []
        """What becomes of the next transactions: `lost` after they are done, or `late`."""
        self._jobs = jobs

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        send = partial(self._send, dict(conditions), list(items.items() if isinstance(items, dict) else items))
        fate = self.next.pop(0) if self.next else ""
        if fate == "late":
            self.late.append(send)
        elif not fate:
            return send()
        else:
            send()
        raise kvwal.CommitUnknown("the answer was lost")

    def _send(self, conditions: dict[Any, Any], items: list[tuple[Any, Any]]) -> bool:
        done = self._jobs.commit_if(conditions, items)
        written = dict(items)
        if done and "write" in written:
            self.accepted.append((written[NAME]["token"], written["write"]))
        return done


class LeaseHistories(RuleBasedStateMachine):
    """Holders of one lease, each with a clock that stands still while the others go on."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="kvwal-lease-")
        self.store = kvwal.open(Path(self.folder.name), archive=None, flush="os")
        jobs = self.store.map("jobs")
        self.clocks = [HandClock() for _ in range(HOLDERS)]
        self.links = [Link(jobs) for _ in range(HOLDERS)]
        for link in self.links:
            link.accepted = self.links[0].accepted
        self.leases = [
            Lease(link, "law", seconds=SECONDS, clock=clock)
            for link, clock in zip(self.links, self.clocks, strict=True)
        ]
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.written = 0

    @rule(who=HOLDER)
    def take(self, who: int) -> None:
        with suppress(kvwal.CommitUnknown):
            self.leases[who].take()

    @rule(who=HOLDER)
    def release(self, who: int) -> None:
        with suppress(kvwal.CommitUnknown):
            self.leases[who].release()

    @rule(who=HOLDER)
    def renew(self, who: int) -> None:
        with suppress(kvwal.CommitUnknown, LeaseLost):
            self.leases[who].renew()

    @rule(who=HOLDER)
    def write(self, who: int) -> None:
        self.written += 1
        name = f"{who}-{self.written}"
        try:
            with self.leases[who].transaction() as t:
                t["write"] = name
            self.acknowledged.append(name)
        except LeaseLost:
            self.refused.append(name)
        except kvwal.CommitUnknown:
            pass

    @rule(who=HOLDER, seconds=st.sampled_from([1.0, SECONDS / 2, SECONDS + 1]))
    def let_time_pass(self, who: int, seconds: float) -> None:
        self.clocks[who].now += seconds

    @rule(who=HOLDER, fates=st.lists(st.sampled_from(["lost", "late"]), min_size=1, max_size=4))
    def lose_answers(self, who: int, fates: list[str]) -> None:
        self.links[who].next = list(fates)

    @rule(who=HOLDER)
    def arrive(self, who: int) -> None:
        """The transactions that were on their way arrive."""
        late, self.links[who].late = self.links[who].late, []
        for send in late:
            send()

    @invariant()
    def tokens_never_fall(self) -> None:
        tokens = [token for token, _ in self.links[0].accepted]
        assert tokens == sorted(tokens)

    @invariant()
    def each_write_counts_once(self) -> None:
        names = [name for _, name in self.links[0].accepted]
        assert len(set(names)) == len(names)
        assert set(self.acknowledged) <= set(names)
        assert not set(self.refused) & set(names), "LeaseLost says that nothing was written"

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


LeaseHistories.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestLeaseHistories = LeaseHistories.TestCase
