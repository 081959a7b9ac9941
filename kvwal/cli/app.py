"""Commands of `kvwal`, in the order in which help lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.bundles import unbundle
from kvwal.cli.commands import (
    archives,
    bench,
    checkpoint,
    data,
    doctor,
    logs,
    query,
    stats,
    transfer,
)
from kvwal.cli.spark import jobs, prune, record, submit
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
    """Print the version of kvwal, and exit."""
    if wanted:
        show.say(f"kvwal {kvwal.__version__}")
        raise typer.Exit


@app.callback()
def begin(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the command's name."""


COMMANDS: list[tuple[str, list[Callable[..., None]]]] = [
    (
        "Entries",
        [data.put, data.get, data.delete, data.history, data.scan, query.query, transfer.export, transfer.import_],
    ),
    ("The store", [checkpoint.checkpoint, stats.stats, doctor.doctor, bench.bench]),
    ("The archive", [archives.restore]),
    ("The cluster", [command.node]),
    ("Spark", [submit.submit, record.record, jobs.jobs, prune.prune]),
]
"""The commands of one word, by the panel of help that lists them."""

GROUPS: list[tuple[str, str, str, list[Callable[..., None]]]] = [
    ("log", "The store", "Look into the log's own files.", [logs.log_dump, logs.log_verify, logs.log_repair]),
    (
        "archive",
        "The archive",
        "The archive: sorted, immutable objects in a folder or a bucket.",
        [
            archives.archive_run,
            archives.archive_list,
            archives.archive_verify,
            archives.archive_rewrite,
            archives.archive_base,
            archives.archive_gc,
        ],
    ),
]
"""The commands of two words: the first word, its panel and help text, and the functions `<first word>_<second word>`."""

PASS_ON: dict[Callable[..., None], dict[str, bool]] = {
    submit.submit: {"ignore_unknown_options": True, "allow_interspersed_args": False}
}
"""The commands that pass on what stands behind their first argument, and what says so to click."""

for panel, functions in COMMANDS:
    for function in functions:
        app.command(function.__name__.rstrip("_"), rich_help_panel=panel, context_settings=PASS_ON.get(function))(
            unbundle(function)
        )
for name, panel, text, functions in GROUPS:
    group = typer.Typer(help=text, no_args_is_help=True)
    for function in functions:
        group.command(function.__name__.removeprefix(f"{name}_"))(unbundle(function))
    app.add_typer(group, name=name, rich_help_panel=panel)
