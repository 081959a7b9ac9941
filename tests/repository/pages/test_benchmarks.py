"""docs/benchmarks.md says what the results say, and every question has a place on it."""

from __future__ import annotations

import importlib
import statistics

import msgspec
import pytest

from benchmarks import growth, page, readme, run
from benchmarks.harness import LOAD, Question, Result, load
from benchmarks.peers.reasons import REASONS


def test_the_page_says_what_the_results_say() -> None:
    assert page.PAGE.read_text() == page.render(load())


def test_the_readme_shows_what_the_results_say() -> None:
    text = readme.README.read_text()
    assert text == readme.filled(text, load())
    assert text.count("| [") > len(readme.ROWS)


def test_every_question_was_answered_in_full() -> None:
    results = load()
    assert {result.question.name for result in results} == set(run.names()) == set(page.ORDER)
    assert not [result.question.name for result in results if result.quick or not result.rows]
    assert not [
        result.question.name for result in results if not (page.RESULTS / f"{result.question.name}.png").exists()
    ]


def test_what_missed_its_target_is_explained_and_nothing_else() -> None:
    missed = {row.name for result in load() if not beside_peers(result) for row in result.rows if not row.met}
    assert set(page.MISSES) == missed


def beside_peers(result: Result) -> bool:
    """Whether the rows of a result name peers. Their reasons are of whole workloads, whose rows may change from run to run."""
    return result.question.name.startswith(page.PEERS)


def test_what_missed_its_target_beside_a_peer_is_explained() -> None:
    rows = [row for result in load() if beside_peers(result) for row in result.rows]
    assert not [row.name for row in rows if not row.met and not page.explanation(row)]
    assert not [name for name in REASONS if not any(row.name.startswith(name) for row in rows)], "no row begins so"


def test_where_a_curve_bends_is_explained_and_nothing_else() -> None:
    grown = [result for result in load() if result.question.name.startswith(growth.PREFIX)]
    curves = {name: rows for result in grown for name, rows in growth.by_curve(result).items()}
    assert len(curves) > 5
    assert {name for name, rows in curves.items() if growth.bent(rows)} == set(growth.BENDS)


def test_a_busy_machine_is_owned_up_to() -> None:
    quiet = msgspec.structs.replace(load()[0], host={"cores": "2", LOAD: "2.1"})
    assert page.busy(quiet) == ""
    assert "17 processes ran or waited" in page.busy(msgspec.structs.replace(quiet, host={"cores": "2", LOAD: "17.2"}))


def test_a_figure_is_the_median_of_its_rounds() -> None:
    """As far as four digits of each round tell."""
    rows = [row for result in load() for row in result.rows if row.rounds]
    assert len(rows) > 15
    for row in rows:
        # What is between two rounded numbers may be rounded as far as these.
        least = 2e-4 * max(row.ours) if row.figure_is.endswith("added") else 0
        assert row.figure == pytest.approx(statistics.median(row.rounds), rel=2e-3, abs=least), row.name


def test_every_question_is_of_one_shape() -> None:
    for name, path in run.modules().items():
        module = importlib.import_module(path)
        assert isinstance(module.QUESTION, Question)
        assert module.QUESTION.name == name
        assert module.measure.__doc__
