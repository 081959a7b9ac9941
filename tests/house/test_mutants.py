"""The list of mutants cannot rot: each still breaks something that is there, and all promises have some."""

from __future__ import annotations

import ast

from tests.house.source import ROOT
from tests.house.test_promises import PROMISES
from tests.mutants.run import MUTANTS


def test_each_mutant_changes_one_place_into_valid_python() -> None:
    for mutant in MUTANTS:
        text = mutant.applied(ROOT)
        assert text != (ROOT / mutant.file).read_text(), mutant.name
        ast.parse(text)


def test_each_mutant_names_tests_that_are_there() -> None:
    for mutant in MUTANTS:
        tests = [word for word in mutant.caught_by.split() if not word.startswith("--")]
        assert tests, mutant.name
        assert all((ROOT / test.partition("::")[0]).is_file() for test in tests), mutant.name


def test_every_promise_is_broken_by_some_mutant() -> None:
    assert {mutant.promise for mutant in MUTANTS} == set(range(1, PROMISES + 1))
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
