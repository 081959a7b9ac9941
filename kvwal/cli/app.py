"""Commands of `kvwal`, in the order in which help lists them.

A command stands here by the name of its function. Only the command that was typed is imported: the modules of all of them take
longer to load than most commands to answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.core

import kvwal
from kvwal.cli import show
from kvwal.cli.bundles import unbundle
from kvwal.cli.importers.chosen import is_product
from kvwal.errors import ConfigError


class CommandGroup(NamedTuple):
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
        "kvwal.cli.importers.seatunnel:import_seatunnel",
        "kvwal.cli.importers.flume:import_flume",
        "kvwal.cli.importers.nifi:import_nifi",
        "kvwal.cli.lineage.exchange:import_openlineage",
        "kvwal.cli.lineage.exchange:export_openlineage",
        "kvwal.cli.commands.ttl:ttl",
    ],
    "The store": [
        "kvwal.cli.commands.maps:maps",
        "kvwal.cli.commands.maps:drop",
        "kvwal.cli.commands.checkpoint:checkpoint",
        "kvwal.cli.commands.backup:backup",
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
    "Lineage": [
        "kvwal.cli.lineage.show:lineage",
        "kvwal.cli.lineage.console:console",
    ],
}
"""The commands by the panel of help that lists them: of one word, and `import` with the word of a product."""

GROUPS = [
    CommandGroup(
        "queue",
        "Queues",
        "The queues of a folder or a cluster. A queue is named BUSINESS or BUSINESS/NAME.",
        [
            "kvwal.cli.queue.reads:queue_list",
            "kvwal.cli.queue.changes:queue_put",
            "kvwal.cli.queue.take:queue_take",
            "kvwal.cli.queue.reads:queue_browse",
            "kvwal.cli.queue.changes:queue_move",
            "kvwal.cli.queue.changes:queue_purge",
            "kvwal.cli.queue.options:queue_options",
            "kvwal.cli.queue.reads:queue_stats",
        ],
    ),
    CommandGroup(
        "content",
        "Contents",
        "Contents of a folder or an archive: bytes of any size under names. CONTENT is BUSINESS or BUSINESS/NAME.",
        [
            "kvwal.cli.content.reads:content_list",
            "kvwal.cli.content.changes:content_put",
            "kvwal.cli.content.reads:content_get",
            "kvwal.cli.content.changes:content_delete",
            "kvwal.cli.content.reads:content_stats",
            "kvwal.cli.content.verify:content_verify",
        ],
    ),
    CommandGroup(
        "provenance",
        "Provenance",
        "What happened to the items of a map and its queues.",
        [
            "kvwal.cli.provenance.options:provenance_options",
            "kvwal.cli.provenance.commands:provenance_search",
            "kvwal.cli.provenance.commands:provenance_lineage",
            "kvwal.cli.provenance.commands:provenance_replay",
        ],
    ),
    CommandGroup(
        "log",
        "The store",
        "Look into the log's own files.",
        [
            "kvwal.cli.commands.logs:log_dump",
            "kvwal.cli.commands.logs:log_verify",
            "kvwal.cli.commands.logs:log_repair",
        ],
    ),
    CommandGroup(
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
"""The commands that pass on all arguments after their first one, with the settings of click that allow it."""


_UsageError: Any = typer.BadParameter.__base__
"""The root of the errors of a command line. typer gives it no public name, and older versions take it from click."""
_NEGATIVE_NUMBER = re.compile(r"-(\.?[0-9].*|Infinity)", re.DOTALL)


class Command(typer.core.TyperCommand):
    """A command that takes a negative number for an argument: no option begins with a digit."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As in typer. Where only negative numbers look like unknown options, unknown options are arguments."""
        unknown = list(self._unknown(ctx, args))
        others = [word for word in unknown if not _NEGATIVE_NUMBER.fullmatch(word)]
        if len(others) < len(unknown) and not ctx.ignore_unknown_options:
            if others:
                ctx.fail(f"No such option: {others[0]}")
            ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)

    def _unknown(self, ctx: Any, args: list[str]) -> Iterator[str]:
        """The words that look like options, and are none of this command, and no value of one."""
        options = {name: each for each in self.get_params(ctx) for name in (*each.opts, *each.secondary_opts)}
        words = iter(args)
        for word in words:
            if word == "--":
                return
            option = options.get(word.partition("=")[0])
            if option is None and word[:1] == "-" != word:
                yield word
            elif option is not None and word in options and not getattr(option, "is_flag", False):
                next(words, None)


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
                app.command(command, cls=Command, rich_help_panel=panel, context_settings=settings)(_function(name))
    for group in GROUPS:
        if group.name in wanted:
            app.add_typer(_group_app(group), name=group.name, rich_help_panel=group.panel)
    return app


class WrongUsage(ConfigError):
    """A command line that names no command, or that the command does not take."""


def run_command(typed: Sequence[str]) -> int:
    """Run the command that was typed; its exit code. Raises `WrongUsage`, where typer would draw a box of several lines."""
    words = [" ".join(typed[:2]), *typed[2:]] if is_product(typed) else list(typed)
    try:
        code = typer.main.get_command(app_for(words))(words, prog_name="kvwal", standalone_mode=False)
    except typer.Abort:
        show.note("Aborted.")
        return 1
    except _UsageError as error:
        what = error.format_message()
        if not what:  # no command was typed, and the help is printed
            return int(error.exit_code)
        command = error.ctx.command_path if error.ctx is not None else " ".join(["kvwal", *words[:1]])
        what = what if what.endswith(("?", ".")) else f"{what}."
        quotes = "An argument with blanks stands in single quotes. " if "extra argument" in what else ""
        raise WrongUsage(what, hint=f"{quotes}`{command} --help` shows what it takes.") from error
    return code if isinstance(code, int) else 0


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


def _group_app(group: CommandGroup) -> typer.Typer:
    app = typer.Typer(help=group.text, no_args_is_help=True)
    for name in group.functions:
        app.command(_word(name).removeprefix(f"{group.name} "), cls=Command)(_function(name))
    return app


def _word(name: str) -> str:
    """The command word of a function: its name, without a trailing underscore. An underscore within is a blank."""
    return name.partition(":")[2].rstrip("_").replace("_", " ")


def _function(name: str) -> Callable[..., None]:
    module, _, function = name.partition(":")
    return unbundle(getattr(import_module(module), function))
