"""Findings about a location: everyone who asks within some seconds gets those of one examination."""

from __future__ import annotations

import pytest

from kvwal.console.findings import FRESH_SECONDS, Findings
from kvwal.errors import StoreLocked
from kvwal.scrub.diagnose import OK, Finding
from tests.support.disk.faults import FakeClock


def test_an_examination_serves_all_who_ask_within_some_seconds() -> None:
    clock, asked = FakeClock(), list[float]()

    def examine() -> list[Finding]:
        asked.append(clock.seconds)
        return [Finding(OK, "disk", f"look {len(asked)}")]

    findings = Findings(examine, clock)
    assert [findings()[0].text for _ in range(3)] == ["look 1"] * 3
    clock.seconds += FRESH_SECONDS + 1
    assert findings()[0].text == "look 2"
    assert asked == [0.0, FRESH_SECONDS + 1]


def test_an_error_is_raised_and_the_next_one_looks_again() -> None:
    outcomes: list[list[Finding] | StoreLocked] = [StoreLocked("it is locked."), []]

    def examine() -> list[Finding]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, StoreLocked):
            raise outcome
        return outcome

    findings = Findings(examine, FakeClock())
    with pytest.raises(StoreLocked):
        findings()
    assert findings() == []
