"""A command imports what it needs: not the modules of the other commands, and not what only commands that write need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

IMPORTED = (
    "import json, sys; from kvwal.cli.app import app_for; app_for(sys.argv[1:]); print(json.dumps(sorted(sys.modules)))"
)


def imported(*typed: str) -> set[str]:
    """The modules that are imported once the application for these words is made."""
    done = subprocess.run([sys.executable, "-c", IMPORTED, *typed], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def commands(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("kvwal.cli.commands.") or name == "kvwal.node.command"}


def test_the_command_that_was_typed_is_imported_and_no_other() -> None:
    found = imported("stats", "ROOT")
    assert commands(found) == {"kvwal.cli.commands.stats"}
    assert "kvwal.cli.commands.archives" in imported("archive", "run")


@pytest.mark.parametrize("late", ["structlog", "pydantic", "pyarrow", "duckdb"])
def test_the_list_of_applications_starts_without(late: str) -> None:
    assert late not in imported("jobs", "ROOT")


@pytest.mark.parametrize("typed", [[], ["--help"], ["stat"], ["--version", "stats"]])
def test_help_and_a_mistyped_command_see_all_commands(typed: list[str]) -> None:
    assert len(commands(imported(*typed))) > 8
