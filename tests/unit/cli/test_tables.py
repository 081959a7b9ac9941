"""Tables for people: numbers are aligned right, a narrow terminal loses optional columns, a pipe loses nothing."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kvwal.cli.tables import SAMPLE, WIDEST, Column, Sheet, columns, print_sheets, print_table
from kvwal.cli.text import visible


def sheet() -> Sheet:
    made = Sheet(columns("name", "?kind", ">rows", "?>bytes"))
    made.add_row("jobs", "k" * 10, "1", "b" * 10)
    made.add_row("[red]x", "", "20", "")
    return made


def heads(width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    return [str(column.header) for column in sheet().fit(console).columns]


def test_short_names_say_how_a_column_is_laid_out() -> None:
    assert columns("a", "?b", ">c", "?>d") == [
        Column("a", folds=False), Column("b", optional=True), Column("c", numeric=True, folds=False),
        Column("d", numeric=True, optional=True, folds=False),
    ]  # fmt: skip


def test_a_narrow_terminal_loses_optional_columns_the_last_first() -> None:
    assert heads(80) == ["name", "kind", "rows", "bytes"]
    assert heads(30) == ["name", "kind", "rows"]
    assert heads(20) == ["name", "rows"]


def test_a_pipe_gets_every_column_and_markup_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_sheets(sheet(), Sheet(columns("empty")))
    assert capsys.readouterr().out.splitlines() == [
        "name    kind        rows       bytes",
        "jobs    kkkkkkkkkk     1  bbbbbbbbbb",
        "[red]x                20",
        "",
    ]


def test_plain_lines_leave_optional_columns_out_and_cap_the_others() -> None:
    assert [line.split() for line in sheet().lines(20)] == [["name", "rows"], ["jobs", "1"], ["[red]x", "20"]]
    wide = Sheet(columns("name", ">rows"), "Jobs")
    wide.add_row("x" * (WIDEST + 5), "1")
    wide.add_row("\x1b[31m", "2")
    assert list(wide.lines()) == [
        "Jobs",
        f"{'name':{WIDEST}}  rows",
        f"{'x' * (WIDEST + 5)}     1",
        f"{visible(chr(27) + '[31m'):{WIDEST}}     2",
    ]


@pytest.mark.parametrize("rows", [2, SAMPLE + 1])
def test_numbers_stand_to_the_right_in_short_and_long_tables(rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "number"], [("a", 1), ("b", 1_000), *[("c", None)] * (rows - 2)])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == ["name  number", "a          1", "b      1,000"]
    assert len(lines) == rows + 1
