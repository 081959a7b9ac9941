"""Every command of `kvwal`, in the order in which help lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.commands import archives, data, doctor, jobs, logs, query, record, store, transfer
from kvwal.node import command

app = typer.Typer(
    name="kvwal",
    help="A durable key-value store: a log per node, an archive in object storage, a newest-first merge.",
    epilog="Exit codes: 0 done, 1 absent or findings, 2 mend the call, 3 try again, 4 damaged data, 5 done but the output was not"
    " taken, 70 a bug of kvwal.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def print_version(wanted: bool) -> None:
    """Say which kvwal this is, and end."""
    if wanted:
        show.say(f"kvwal {kvwal.__version__}")
        raise typer.Exit


@app.callback()
def begin(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What stands before a command."""


COMMANDS: list[tuple[str, list[Callable[..., None]]]] = [
    (
        "Entries",
        [data.put, data.get, data.delete, data.history, data.scan, query.query, transfer.export, transfer.import_],
    ),
    ("The store", [store.checkpoint, store.stats, doctor.doctor, store.bench]),
    ("The archive", [archives.restore]),
    ("The cluster", [command.node]),
    ("Spark", [record.record, jobs.jobs]),
]

for panel, functions in COMMANDS:
    for function in functions:
        app.command(function.__name__.rstrip("_"), rich_help_panel=panel)(function)
app.add_typer(logs.log_app, name="log", rich_help_panel="The store")
app.add_typer(archives.archive_app, name="archive", rich_help_panel="The archive")
