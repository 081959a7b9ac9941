"""A bundle's fields become parameters of the command, in the place of the bundle; the command receives the bundle whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from kvwal.cli.bundles import unbundle


@dataclass(frozen=True)
class Place:
    """A bundle with an argument and an option."""

    root: Annotated[str, typer.Argument(metavar="ROOT", help="The folder.")]
    node: Annotated[str, typer.Option(help="The node.")] = "local"


@dataclass(frozen=True)
class AnyPlace(Place):
    """The same bundle with another default."""

    node: Annotated[str, typer.Option(help="The node; '*' for all.")] = "*"


def put(first: int, place: Place, key: str, times: int = 1) -> None:
    """Put a key."""
    print(first, place, key, times)


def scan(place: AnyPlace) -> None:
    """Scan."""
    print(place)


def test_the_fields_stand_in_the_place_of_the_bundle() -> None:
    parameters = unbundle(put).__signature__.parameters  # type: ignore[attr-defined]
    assert list(parameters) == ["first", "root", "node", "key", "times"]
    assert unbundle(put).__doc__ == "Put a key."


def run(command: object, *arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(unbundle(command))  # type: ignore[arg-type]
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_the_command_receives_the_bundle_whole() -> None:
    assert run(put, "1", "data", "k", "--node", "n") == (0, f"1 {Place('data', 'n')} k 1\n")
    assert run(put, "1", "data", "k") == (0, f"1 {Place('data')} k 1\n")
    assert run(scan, "data") == (0, f"{AnyPlace('data', '*')}\n")


def test_an_argument_of_a_bundle_is_required() -> None:
    code, output = run(scan)
    assert code == 2
    assert "ROOT" in output


def test_help_has_the_texts_of_the_fields() -> None:
    _, output = run(scan, "--help")
    assert "The folder." in output
    assert "'*' for all" in output
