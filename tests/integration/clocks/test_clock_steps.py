"""One machine's clock steps while its member serves: that costs its own member at most, and no other one is kept out by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from tests.support.cluster.consistency import checked
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast
from tests.support.member.stepping import SteppingClock, needs_compiler

pytestmark = [needs_hazelcast, needs_compiler, pytest.mark.long]
STEP = 60.0


class Clocks:
    """Three members that serve, each on a machine with a clock of its own."""

    def __init__(self, made: Cluster, clocks: dict[str, SteppingClock]) -> None:
        self.made = made
        self.clocks = clocks

    def step(self, node: Node, seconds: float) -> None:
        self.clocks[node.name].step(seconds)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Clocks]:
    """All clocks are right."""
    with cluster(tmp_path, 0) as made:
        made.grow(3)
        clocks = {node.name: SteppingClock(tmp_path, node.name) for node in made.nodes}
        for node in made.nodes:
            node.prefix = clocks[node.name].prefix
        try:
            made.start()
            yield Clocks(made, clocks)
        finally:
            for node in made.nodes:
                if node.process is not None:
                    node.kill()


def last_error(node: Node) -> str:
    return str(node.lines()[-1]["kind"])


@pytest.mark.parametrize("seconds", [STEP, -STEP])
@pytest.mark.parametrize("age", [0, 2])
def test_only_the_member_whose_clock_steps_ends_and_none_stamps_from_the_future(
    three: Clocks, seconds: float, age: int
) -> None:
    made = three.made
    with checked(kvwal.connect(made.addresses, cluster=CLUSTER), "checked") as clients:
        clients.wait(100)
        nodes = made.by_age()
        bad = nodes.pop(age)
        three.step(bad, seconds)
        assert bad.ended() == 3
        assert last_error(bad) == "ClockSkew"
        clients.wait(100)
        bad.spawn()
        assert bad.ended() == 3, "as long as its clock is wrong"
        three.step(bad, 0)
        bad.start()
        clients.wait(100)
        for node in nodes:
            node.restart()  # ends with 3 if its log is ahead of its clock
            clients.wait(100)


def test_a_killed_member_joins_beside_one_whose_clock_is_wrong(three: Clocks) -> None:
    made = three.made
    with checked(kvwal.connect(made.addresses, cluster=CLUSTER), "checked") as clients:
        clients.wait(100)
        bad, killed, right = made.by_age()
        killed.kill()
        clients.wait(100)
        three.step(bad, STEP)
        clients.wait(100)
        killed.start()
        assert bad.ended() == 3, "two agree on another time now"
        assert last_error(bad) == "ClockSkew"
        clients.wait(100)
        assert right.ready()["ready"]
