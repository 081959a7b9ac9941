"""The lifecycle of a member: only the transitions of the table are possible, and the gate has no state beside it."""

from __future__ import annotations

import re

import pytest

from kvwal.node.lifecycle import GATE, TRANSITIONS, Lifecycle, Phase
from tests.repository.source import ROOT

ORDER = [Phase.RECOVERING, Phase.WAITING, Phase.LOADING, Phase.COPYING, Phase.SERVING, Phase.LEAVING]
READY_GATE = ROOT / "kvwal/node/java/src/main/java/kvwal/node/ReadyGate.java"
FLAG = re.compile(r"^    private (?:volatile )?(?:boolean|String) (\w+);", re.MULTILINE)


def at(phase: Phase) -> Lifecycle:
    """A lifecycle in `phase`, reached by transitions of the table."""
    paths = {Phase.STARTING: [Phase.STARTING]}
    waiting = [Phase.STARTING]
    for here in waiting:
        for there in TRANSITIONS[here]:
            if there not in paths:
                paths[there] = [*paths[here], there]
                waiting.append(there)
    lifecycle = Lifecycle()
    for step in paths[phase]:
        lifecycle.to(step)
    assert lifecycle.phase is phase
    return lifecycle


@pytest.mark.parametrize("here", Phase)
@pytest.mark.parametrize("there", Phase)
def test_only_the_transitions_of_the_table_are_possible(here: Phase, there: Phase) -> None:
    lifecycle = at(here)
    if there is here or there in TRANSITIONS[here]:
        assert lifecycle.to(there) is (there is not here)
        assert lifecycle.phase is there
        return
    with pytest.raises(ValueError, match=f"{here.value} cannot be {there.value} next"):
        lifecycle.to(there)
    assert lifecycle.phase is here


def test_a_member_goes_from_its_start_to_its_end() -> None:
    lifecycle = Lifecycle()
    served = []
    for phase in ORDER:
        lifecycle.to(phase)
        served += [phase] if lifecycle.serves else []
    assert served == [Phase.COPYING, Phase.SERVING]
    assert lifecycle.ends


def test_progress_belongs_to_a_phase() -> None:
    lifecycle = at(Phase.WAITING)
    assert lifecycle.to(Phase.WAITING, waiting_for=["node-2"])
    assert not lifecycle.to(Phase.WAITING, waiting_for=["node-2"]), "nothing has changed"
    assert lifecycle.progress == {"waiting_for": ["node-2"]}
    lifecycle.to(Phase.COPYING)
    assert lifecycle.progress == {}


def test_every_state_of_the_gate_goes_with_a_phase() -> None:
    """`missed` is no state: it remembers a loss until the gate is armed."""
    flags = set(FLAG.findall(READY_GATE.read_text())) - {"missed"}
    assert {state for states in GATE.values() for state in states} == flags | {"closed"}
    assert GATE.keys() == TRANSITIONS.keys() == set(Phase)
    assert all(("open" in GATE[phase]) is at(phase).serves for phase in Phase)
