"""Reading a page as a person does: each number is found, what a text may stand for, and what is wrong is told."""

from __future__ import annotations

import pytest

from tests.support.console.expected import Expected, differences, differences_of_csv
from tests.support.console.page import Place, Shown, texts_of, tree_of
from tests.support.console.said import (
    Moment,
    Range,
    Said,
    Stack,
    Worded,
    amount,
    count,
    fits,
    ms,
    phrase,
    range_of,
    size,
)

PAGE = """<h1>Stage 4</h1><dl class="figures"><div><dt>tasks</dt><dd>2<small>1 failed</small></dd></div></dl>
<section><div class="scroll" aria-label="Jobs"><table><thead><tr><th>job \u2191</th><th>took</th></tr></thead>
<tbody><tr><td>7<span class="more">of 8</span></td><td>2.6 s</td></tr></tbody></table></div></section>
<div class="phone"><svg aria-label="3 tasks"><a aria-label="a bar of 9"><title>a bar of 9</title></a></svg></div>"""


def expected() -> Expected:
    made = Expected()
    made.put("h1", "Stage 4")
    made.figure("tasks", count(2), phrase(1, " failed"))
    made.table("Jobs", [{"job": "7", "job more": "of 8", "took": ms(2_610)}])
    made.put("small picture tasks aria-label", amount(3, "task"), "a bar of 9")
    made.put("small picture tasks", "a bar of 9")
    return made


def test_every_number_of_a_page_is_accounted_for() -> None:
    texts = texts_of(tree_of(PAGE))
    assert differences(texts, expected()) == []
    for place in list(expected().said):
        without = expected()
        del without.said[place]
        assert [each.partition(": ")[0] for each in differences(texts, without)] == [str(place)]


def test_a_wrong_number_and_a_missing_one_are_told() -> None:
    found = differences(texts_of(tree_of(PAGE.replace("2.6 s", "2.7 s").replace("Stage 4", ""))), expected())
    assert [each.partition(": ")[0] for each in found] == ["h1 / 0", "table Jobs / 0 / took"]


def test_csv_must_have_what_the_page_rounds() -> None:
    assert differences_of_csv("Jobs", ["job", "took"], [["7", "2610"]], expected()) == []
    assert len(differences_of_csv("Jobs", ["job", "took"], [["7", "2600"]], expected())) == 1


def test_a_time_is_told_to_programs_exactly() -> None:
    (shown,) = texts_of(
        tree_of('<td><time datetime="2026-01-01T00:00:01.250+00:00">2026-01-01 00:00:01Z</time></td>')
    ).values()
    assert [fits(Moment(1_767_225_601_250 + more), shown) for more in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("text", "kind", "may_be"),
    [
        ("26 ms", "ms", Range(25.5, 26.5)),
        ("2.6 s", "ms", Range(2_550, 2_650)),
        ("3 min 5 s", "ms", Range(185_000, 186_000)),
        ("5 min", "ms", Range(300_000, 301_000)),
        ("1 h 2 min", "ms", Range(3_720_000, 3_780_000)),
        ("1.5 KiB", "bytes", Range(1_484.8, 1_587.2)),
        ("327\u202f346", "count", Range(327_345.5, 327_346.5)),
        ("2.69 M", "short", Range(2_685_000, 2_695_000)),
        ("< 0.1 \u00d7", "times", Range(0, 0.05)),
        ("2.6 s", "bytes", None),
        ("none", "count", None),
    ],
)
def test_a_text_stands_for_what_is_rounded_to_it(text: str, kind: str, may_be: Range | None) -> None:
    found = range_of(text, kind)
    assert found == (may_be and pytest.approx(may_be))


@pytest.mark.parametrize(
    ("said", "text", "is_right"),
    [
        (Worded("a name that is long enough to be cut"), "a name that is long enou\u2026", True),
        (Worded("a name that is long enough to be cut"), "a name that is short\u2026", False),
        (Worded("begin, middle, end"), "begin, \u2026 cut \u2026 , ends", False),
        (Worded("begin, middle, end"), "begin, \u2026 cut \u2026 , end", True),
        (phrase(1, " of ", 2), "1 of 3", False),
        (size(2_048), "2.0 KiB", True),
        (Stack(("at a", "at b")), "at a\n\tat b\n\tat the.driver", True),
        (Stack(("at a", "at b")), "at a\n\tat c", False),
    ],
)
def test_texts_may_be_cut_and_no_more(said: Said, text: str, is_right: bool) -> None:
    assert fits(said, Shown(text)) is is_right


def test_places_are_named_for_people() -> None:
    assert str(Place("table Jobs", 0, "took")) == "table Jobs / 0 / took"
