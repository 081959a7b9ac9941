"""The list of mutants cannot rot: each still breaks something that is there, and all promises have some."""

from __future__ import annotations

import ast
import re

from tests.mutants import of_the_disk
from tests.mutants.run import MUTANTS
from tests.repository.source import ROOT, committed
from tests.repository.test_promises import PROMISES

SYNC = re.compile(r"(?:\.datasync|\.sync_folder|os\.fsync|os\.fdatasync)\(")


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


def test_each_sync_is_left_out_by_a_mutant() -> None:
    """Each fsync has a mutant that shows the need for it."""
    left_out = set()
    for mutant in of_the_disk.MUTANTS:
        text = (ROOT / mutant.file).read_text()
        if SYNC.search(mutant.old) and not SYNC.search(mutant.new):
            (sync,) = SYNC.finditer(mutant.old)
            left_out.add((mutant.file, text.index(mutant.old) + sync.start()))
    elsewhere = ("kvwal/cli/",)
    sources = [
        path for path in committed(".py") if path.startswith(("kvwal/", "archive/")) and not path.startswith(elsewhere)
    ]
    syncs = {(path, sync.start()) for path in sources for sync in SYNC.finditer((ROOT / path).read_text())}
    assert len(syncs) > 20
    assert sorted(syncs) == sorted(left_out)
