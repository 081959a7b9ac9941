"""Parameters of Spark's REST API: the same dates and words are read as by Spark, and the same are refused."""

from __future__ import annotations

import pytest
from starlette.datastructures import QueryParams

from kvwal.console.bodies import Refused
from kvwal.console.sparkapi.parameters import flag, integer, quantiles, window, words
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


@pytest.mark.parametrize("text", ["", "soon", "2015", "20150210", "T00:00:00.000GMT"])
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


@pytest.mark.parametrize("text", ["x", "", "1.5", "99999999999", "２"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        integer(QueryParams({"limit": text}), "limit", 0)


def test_every_word_but_true_is_false() -> None:
    assert [flag(QueryParams({"details": text}), "details", default=True) for text in ("TRUE", "yes", "")] == [
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
