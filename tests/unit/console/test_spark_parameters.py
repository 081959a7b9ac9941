"""Parameters of Spark's REST API: the same dates and words are read as by Spark, and the same are refused."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from starlette.datastructures import QueryParams

from kvwal.console.bodies import Refused
from kvwal.console.sparkapi.parameters import first, flag, integer, quantiles, window, words, words_of_tasks
from kvwal.console.sparkevents.moments import moment_text

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-02", DAY),
        ("1970-01-02T00:00:00.001GMT", DAY + 1),
        ("1970-01-02T00:00:00.000EST", DAY + 5 * 3_600_000),
        ("1970-01-02T00:00:00.000+01:00", DAY - 3_600_000),
        ("1970-01-02T00:00:00.000", DAY),  # without a zone it is a day, with something behind it
        ("1970-13-01", 365 * DAY),  # Java rolls over
        ("1970-1-2x", DAY),
    ],
)
def test_a_date_is_read_as_java_reads_it(text: str, moment: int) -> None:
    assert window(QueryParams({"minDate": text}), "minDate", "maxDate").first == moment


@pytest.mark.parametrize("text", [" ", "soon", "2015", "20150210", "T00:00:00.000GMT"])
def test_what_is_no_date_is_refused_as_spark_does(text: str) -> None:
    with pytest.raises(Refused, match=f"Couldn't parse date: {text}") as refused:
        window(QueryParams({"minDate": text}), "minDate", "maxDate")
    assert refused.value.status == 400


@pytest.mark.parametrize("text", ["999999999-01-01", "0-0-0", "9999-12-31"])
def test_a_date_out_of_all_years_bounds_nothing(text: str) -> None:
    found = window(QueryParams({"maxDate": text}), "minDate", "maxDate")
    assert found.has(1_700_000_000_000) == (text != "0-0-0")


def test_words_are_taken_in_any_case_and_others_are_not_there() -> None:
    assert words(QueryParams("status=Failed&status=RUNNING"), "status", ("FAILED", "RUNNING")) == {"FAILED", "RUNNING"}
    with pytest.raises(Refused) as refused:
        words(QueryParams("status=broken"), "status", ("FAILED",))
    assert refused.value.status == 404


def test_an_empty_word_is_one_that_no_row_has_and_is_refused_where_tasks_are_asked_for() -> None:
    assert words(QueryParams("status=&status=failed"), "status", ("FAILED",)) == {"", "FAILED"}
    assert words_of_tasks(QueryParams("status=failed"), "status", ("FAILED",)) == {"FAILED"}
    with pytest.raises(Refused, match="status is empty") as refused:
        words_of_tasks(QueryParams("status=failed&status="), "status", ("FAILED",))
    assert refused.value.status == 400


@pytest.mark.parametrize(("query", "text"), [("a=1&a=2", "1"), ("a=&a=2", ""), ("a", ""), ("b=1", None), ("", None)])
def test_the_first_value_of_a_parameter_counts(query: str, text: str | None) -> None:
    given = QueryParams(parse_qsl(query, keep_blank_values=True))
    assert first(given, "a") == text
    assert integer(given, "a", 7) == int(text or 7)


def test_an_empty_parameter_is_as_one_that_is_not_given() -> None:
    empty, absent = QueryParams("minDate=&details=&limit="), QueryParams()
    assert window(empty, "minDate", "maxDate") == window(absent, "minDate", "maxDate")
    assert [flag(empty, "details", default=default) for default in (True, False)] == [True, False]
    assert integer(empty, "limit", 7) == 7
    with pytest.raises(Refused):
        quantiles(QueryParams("quantiles="), "0.5")


def test_of_repeated_dates_flags_and_quantiles_the_first_counts() -> None:
    given = QueryParams("minDate=1970-01-02&minDate=soon&details=false&details=true&quantiles=0.1&quantiles=x")
    assert window(given, "minDate", "maxDate").first == DAY
    assert flag(given, "details", default=True) is False
    assert quantiles(given, "0.5") == [0.1]


@pytest.mark.parametrize("text", ["x", " ", "1.5", "99999999999", "２"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        integer(QueryParams({"limit": text}), "limit", 0)


def test_every_word_but_true_is_false() -> None:
    assert [flag(QueryParams({"details": text}), "details", default=True) for text in ("TRUE", "yes", " ")] == [
        True,
        False,
        False,
    ]
    assert flag(QueryParams(), "details", default=True)


@pytest.mark.parametrize("text", ["half", "0.5,", "-0.1", "1.01", "nan"])
def test_quantiles_are_shares(text: str) -> None:
    with pytest.raises(Refused) as refused:
        quantiles(QueryParams({"quantiles": text}), "0.5")
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (-1, "1969-12-31T23:59:59.999GMT"),
        (0, "1970-01-01T00:00:00.000GMT"),
        (1422981788731, "2015-02-03T16:43:08.731GMT"),
    ],
)
def test_a_moment_is_written_as_spark_writes_it(moment: int, text: str) -> None:
    assert moment_text(moment) == text


@pytest.mark.parametrize("moment", [-(1 << 62), 1 << 62])
def test_a_moment_that_no_calendar_has_is_written_too(moment: int) -> None:
    assert moment_text(moment).endswith("GMT")
