"""Commands of `kvwal`, in the order in which help lists them.

A command stands here by the name of its function. Only the command that was typed is imported: the modules of all of them take
longer to load than most commands to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.bundles import unbundle


class Group(NamedTuple):
    """Commands of two words: the first one, the panel of help that lists it, its help, and the functions `<first>_<second>`."""

    name: str
    panel: str
    text: str
    functions: Sequence[str]


COMMANDS: dict[str, Sequence[str]] = {
    "Entries": [
        "kvwal.cli.commands.data:put",
        "kvwal.cli.commands.data:get",
        "kvwal.cli.commands.data:delete",
        "kvwal.cli.commands.data:history",
        "kvwal.cli.commands.data:scan",
        "kvwal.cli.commands.query:query",
        "kvwal.cli.commands.transfer:export",
        "kvwal.cli.commands.transfer:import_",
    ],
    "The store": [
        "kvwal.cli.commands.checkpoint:checkpoint",
        "kvwal.cli.commands.stats:stats",
        "kvwal.cli.commands.doctor:doctor",
        "kvwal.cli.commands.bench:bench",
    ],
    "The archive": ["kvwal.cli.commands.archives:restore"],
    "The cluster": ["kvwal.node.command:node"],
    "Spark": [
        "kvwal.cli.spark.submit:submit",
        "kvwal.cli.spark.record:record",
        "kvwal.cli.spark.jobs:jobs",
        "kvwal.cli.spark.prune:prune",
    ],
}
"""The commands of one word, by the panel of help that lists them."""

GROUPS = [
    Group(
        "log",
        "The store",
        "Look into the log's own files.",
        [
            "kvwal.cli.commands.logs:log_dump",
            "kvwal.cli.commands.logs:log_verify",
            "kvwal.cli.commands.logs:log_repair",
        ],
    ),
    Group(
        "archive",
        "The archive",
        "The archive: sorted, immutable objects in a folder or a bucket.",
        [
            "kvwal.cli.commands.archives:archive_run",
            "kvwal.cli.commands.archives:archive_list",
            "kvwal.cli.commands.archives:archive_verify",
            "kvwal.cli.commands.archives:archive_rewrite",
            "kvwal.cli.commands.archives:archive_base",
            "kvwal.cli.commands.archives:archive_gc",
        ],
    ),
]

PASS_ON = {"submit": {"ignore_unknown_options": True, "allow_interspersed_args": False}}
"""The commands that pass on all arguments behind their first one, with the settings of click that allow it."""


def app_for(typed: Sequence[str]) -> typer.Typer:
    """The application, with the command that `typed` begins with; with all commands if it begins with none of them."""
    app = typer.Typer(
        name="kvwal",
        help="A durable key-value store: a log per node, an archive in object storage, a newest-first merge.",
        epilog="Exit codes: 0 done, 1 absent or findings, 2 mend the call, 3 try again, 4 damaged data, 5 done but the output"
        " was not taken, 70 a bug of kvwal.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(begin)
    word = typed[0] if typed else ""
    known = {_word(name) for names in COMMANDS.values() for name in names} | {group.name for group in GROUPS}
    wanted = {word} & known or known
    for panel, names in COMMANDS.items():
        for name in names:
            if (command := _word(name)) in wanted:
                settings: dict[str, Any] | None = PASS_ON.get(command)
                app.command(command, rich_help_panel=panel, context_settings=settings)(_function(name))
    for group in GROUPS:
        if group.name in wanted:
            app.add_typer(_group_app(group), name=group.name, rich_help_panel=group.panel)
    return app


def print_version(wanted: bool) -> None:
    """Print the version of kvwal, and exit."""
    if wanted:
        show.say(f"kvwal {kvwal.__version__}")
        raise typer.Exit


def begin(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the command's name."""


def _group_app(group: Group) -> typer.Typer:
    app = typer.Typer(help=group.text, no_args_is_help=True)
    for name in group.functions:
        app.command(_word(name).removeprefix(f"{group.name}_"))(_function(name))
    return app


def _word(name: str) -> str:
    """The command word of a function: its name, without a trailing underscore."""
    return name.partition(":")[2].rstrip("_")


def _function(name: str) -> Callable[..., None]:
    module, _, function = name.partition(":")
    return unbundle(getattr(import_module(module), function))
