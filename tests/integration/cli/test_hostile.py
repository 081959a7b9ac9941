"""Text of users in tables: never markup, and no character that steers a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.cli.tables import SAMPLE, print_table
from kvwal.cli.text import visible
from kvwal.spark import queries, records
from kvwal.spark.record_keys import job_key
from tests.support.cli import kvwal as command

HOSTILE = [
    "load [/data/in]", "[bold]x", "[/]", "[link=https://example.org]x[/link]", ":smile:", "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "a\nb", "a\rb", "a\tb", "\x9b31m", "\u202eright to left", "{0}", "%s %d", "\\[x]", "'\"", "",
]  # fmt: skip


def shown_safely(printed: str) -> bool:
    return not any(
        (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0 or char == "\u202e" for char in printed
    )


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """One application that failed, with a job of each description."""
    app = records.Application(id="app", name=HOSTILE[0], user=HOSTILE[5], status="FAILED", started=1, last_event=1,
                              jobs_failed=len(HOSTILE), error=records.Error(HOSTILE[0]))  # fmt: skip
    with kvwal.open(tmp_path, archive=None) as store:
        spark = store.map("spark")
        spark["app/app"] = records.to_value(app)
        for number, text in enumerate(HOSTILE):
            job = records.Job(
                id=number, description=text, name=text, status=text or "FAILED", error=records.Error(text), ended=1
            )
            spark[job_key("app", number)] = records.to_value(job)
    return tmp_path


@pytest.fixture(params=["pipe", "terminal"])
def drawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables as a pipe gets them, and as rich draws them for a terminal, here without colours."""
    if request.param == "terminal":
        for name, value in (("FORCE_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "1000"), ("LINES", "50")):
            monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("options", [[], ["--failed"], ["app"], ["--runs", HOSTILE[0]], ["--runs", "[bold]x"]], ids=str)
def test_what_spark_was_told_is_text_in_every_table(jobs: Path, options: list[str]) -> None:
    ran = command("jobs", jobs, *options)
    assert ran.code == 0, ran.err
    assert shown_safely(ran.out)
    if "--runs" not in options:
        for text in HOSTILE if options else HOSTILE[:1]:  # the list has no jobs
            assert visible(text.strip()) in ran.out
    assert command("jobs", jobs, *options, "--json").code == 0


def test_keys_and_values_are_text_in_tables(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        for text in HOSTILE:
            store.map("b")[f"k{text}"] = text
    for typed in (["scan", tmp_path, "b"], ["query", tmp_path, "SELECT key, value FROM b"]):
        ran = command(*typed)
        assert ran.code == 0, ran.err
        assert shown_safely(ran.out)
        for text in HOSTILE:
            assert visible(f"k{text}") in ran.out
    scanned = [json.loads(line) for line in command("scan", tmp_path, "b", "--json").out.splitlines()]
    assert {row["value"] for row in scanned} == set(HOSTILE), "for programs everything is as it was"


def test_a_table_that_is_printed_row_by_row_is_text_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["what"], [[text] for text in HOSTILE * (1 + SAMPLE // len(HOSTILE))])
    printed = capsys.readouterr().out
    assert shown_safely(printed)
    assert all(visible(text.strip()) in printed for text in HOSTILE)


class Counted(dict[str, object]):
    """How often all keys were gone through."""

    scans = 0

    def __iter__(self) -> Iterator[str]:
        self.scans += 1
        return super().__iter__()


def test_many_applications_are_looked_through_in_one_scan() -> None:
    """Not in one for each application."""
    recorded = Counted()
    for number in range(20):
        app = records.Application(id=f"a{number}", name="n", jobs_failed=1, sql_failed=1, last_event=1)
        recorded[f"a{number}/app"] = records.to_value(app)
        recorded[job_key(f"a{number}", 1)] = records.to_value(records.Job(id=1, error=records.Error("x")))
    assert len(queries.failures(recorded)) == 20
    assert recorded.scans == 1
    assert queries.runs(recorded, "none") == []
    assert recorded.scans == 2
