"""A member that joins others: what memory loses meanwhile is nothing that is absent, and is not passed on as that."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.repository.source import ROOT
from tests.support.cluster.nodes import needs_hazelcast
from tests.support.java.joins import GONE

pytestmark = needs_hazelcast


@pytest.fixture(scope="module")
def ended() -> dict[str, str]:
    """How each case ended."""
    program = [sys.executable, "-m", "tests.support.java.joins"]
    said = subprocess.run(program, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, str] = json.loads(said.splitlines()[-1])  # what it logs comes before
    return found


@pytest.mark.long
@pytest.mark.parametrize("case", ["lost before it knew that memory is whole", "lost while it joins"])
def test_a_member_that_joins_a_memory_with_a_hole_ends(ended: dict[str, str], case: str) -> None:
    """Else the next member to start would take this memory for whole, and adoption would log the missing entries as deleted."""
    assert ended[case].startswith(f"NotRecovered: {GONE}; nobody is to take what is missing here for absent.")


@pytest.mark.parametrize("case", ["nothing was lost", "lost before it met those that have all"])
def test_a_member_that_was_away_joins_a_whole_memory(ended: dict[str, str], case: str) -> None:
    assert ended[case] == "serves, compares"


def test_what_was_lost_before_memory_was_filled_is_nothing(ended: dict[str, str]) -> None:
    assert ended["lost before memory was filled"] == "serves, compares nothing"


def test_a_question_without_an_answer_does_not_make_a_member_one_that_was_there(ended: dict[str, str]) -> None:
    """It compares what it logged last with what the others have, and does not archive for a restore that nobody makes."""
    assert ended["the first question has no answer"] == "serves, compares"
