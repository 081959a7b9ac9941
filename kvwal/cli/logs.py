"""Commands on the log's own files: log dump, log verify."""

from __future__ import annotations

from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.examine import Found, dump, examine
from kvwal.cli.options import AnyNamespace, Archive, Cluster, Json, Node, Root, Where, complete_business
from kvwal.cli.text import as_json, label
from kvwal.errors import ConfigError
from kvwal.hlc import to_text
from kvwal.ports.disk import OS_DISK

DAMAGED = 4

log_app = typer.Typer(help="Look into the log's own files.", no_args_is_help=True)

OneBusiness = Annotated[
    str | None,
    typer.Argument(
        metavar="[BUSINESS]", help="Only this business.", show_default=False, autocompletion=complete_business
    ),
]


@log_app.command("dump")
def log_dump(
    root: Root,
    business: OneBusiness = None,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Print every entry that is in the log's segments, in the order it was written."""
    for place in Where(root, namespace, cluster, node, archive).places(business):
        for file, sequence, entry in dump(OS_DISK, root, place):
            if json:
                where = {"business": place.business, "node": place.node, "file": file, "sequence": sequence}
                show.json_line(where | as_json(entry.public()))
                continue
            change = "delete" if entry.deleted else label(entry.value, entry.value_class)
            key = label(entry.key, entry.key_class)
            show.say(f"{place.business}/{place.node} {sequence} {to_text(entry.timestamp)} {key} {change}")


@log_app.command("verify")
def log_verify(
    root: Root,
    business: OneBusiness = None,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Read every segment and snapshot and check it. Changes nothing; exit code 4 if anything is damaged."""
    places = Where(root, namespace, cluster, node, archive).places(business)
    if not places:
        raise ConfigError(
            f"{root} holds no log of {namespace}/{cluster}.", hint="See what is there with `kvwal doctor`."
        )
    with show.progress() as report:
        found = [(place, file) for place in places for file in examine(OS_DISK, root, place, report)]
    names = ["business", "node", "file", "first", "last", "entries", "bytes", "state", "problem"]
    lines = [(place.business, place.node, *described(file)) for place, file in found]
    show.rows(names, lines, show.Format.json if json else show.Format.table)
    if any(file.problem for _, file in found):
        raise typer.Exit(DAMAGED)


def described(file: Found) -> tuple[str, int, int, int, int, str, str]:
    """A file's columns."""
    return file.path.name, file.first, file.last, file.entries, file.bytes, file.state, file.problem
