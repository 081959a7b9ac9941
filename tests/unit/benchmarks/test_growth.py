"""Curves: where one bends is found, said once, and explained; and each size is measured in every round."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import growth
from benchmarks.growth import Curve
from benchmarks.harness import Question, Result, Run

QUESTION = Question("growth_of_x", "What?", "the smallest.", "nothing.")


def result(costs: dict[int, float], name: str = "a put by x") -> Result:
    curve = Curve(name, "µs/put", tuple(costs), costs.__getitem__)
    return Result(QUESTION, growth.rows(Run(Path(), quick=False), curve, 2), {})


def test_each_size_stands_beside_the_smallest_of_its_round() -> None:
    measured: list[int] = []

    def cost(size: int) -> float:
        measured.append(size)
        return float(len(measured))

    rows = growth.rows(Run(Path(), quick=False), Curve("a put by x", "µs/put", (1, 1_000), cost), 2)
    assert measured == [1, 1_000, 1, 1_000]
    assert [(row.name, row.ours, row.baselines) for row in rows] == [
        ("a put by x: 1", [1, 3], [1, 3]),
        ("a put by x: 1,000", [2, 4], [1, 3]),
    ]


@pytest.mark.parametrize(
    ("costs", "where"), [({1: 5, 10: 9, 100: 9.9}, None), ({1: 5, 10: 9, 100: 10, 1_000: 90}, "100")]
)
def test_a_curve_bends_where_it_costs_twice_as_much(costs: dict[int, float], where: str | None) -> None:
    (rows,) = growth.by_curve(result(costs)).values()
    bent = growth.bent(rows)
    assert (None if bent is None else bent.name) == (None if where is None else f"a put by x: {where}")


def test_a_bend_is_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "BENDS", {"a put by x": "it copies."})
    assert growth.reasons(result({1: 5, 10: 50, 100: 500})) == ["a put by x: 10: it bends here: it copies."]
    assert growth.reasons(result({1: 5, 10: 5})) == []


def test_the_plot_has_an_axis_for_each_curve(tmp_path: Path) -> None:
    growth.draw(result({1: 5, 10: 50}), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
