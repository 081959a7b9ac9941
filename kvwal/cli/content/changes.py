"""The commands that change contents: put, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.content.selection import ContentsArgument, ContentStore, NameArgument
from kvwal.cli.content.transfer import opened, parts_of, path_of
from kvwal.cli.options import AcceptClock, Json
from kvwal.cli.text import check_text
from kvwal.cli.transfer.standard_input import STANDARD_INPUT
from kvwal.counted import counted
from kvwal.errors import ConfigError
from kvwal.hlc import to_text


def parsed_attributes(typed: Sequence[str]) -> dict[str, str]:
    """The attributes that were typed as K=V. Raises `ConfigError`."""
    attributes: dict[str, str] = {}
    for one in typed:
        key, equals, value = check_text("--attribute", one).partition("=")
        if not (key and equals):
            raise ConfigError(
                f"--attribute {one!r} has no name and value; nothing was put.", hint="Write --attribute NAME=VALUE."
            )
        if key in attributes:
            raise ConfigError(f"--attribute {key} is given twice; nothing was put.", hint="Give each of them once.")
        attributes[key] = value
    return attributes


def content_put(
    selection: ContentStore,
    contents: ContentsArgument,
    name: NameArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="[FILE]", help="The file with the bytes; - or nothing for standard input.", show_default=False
        ),
    ] = STANDARD_INPUT,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What is kept with the content; may be given several times."),
    ] = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put bytes under a name, and print their number and timestamp once they are durable.

    A content that has the name is replaced; its history stays. Bytes of any size need a few megabytes of memory.
    """
    attributes = parsed_attributes(attribute or [])
    source = path_of("FILE", file)
    with (
        opened(source) as (data, total),
        selection.beginning(contents, accept_clock) as target,
        target.create(name, attributes) as out,
    ):
        for part in parts_of(source, data, total):
            out.write(part)
        length = out.tell()
    answer = {
        "content": str(contents),
        "name": name,
        "bytes": length,
        "timestamp": str(out.timestamp),
        "time": to_text(out.timestamp),
    }
    show.answer(answer, f"{contents}: {name!r} has {counted(length, 'byte')} since {to_text(out.timestamp)}.", json)


def content_delete(
    selection: ContentStore,
    contents: ContentsArgument,
    name: NameArgument,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Delete a content, and print the timestamp once that is durable. Its history stays. Exit code 1 if there is none."""
    with selection.existing(contents, accept_clock) as target:
        timestamp = target.delete(name) if name in target else 0
    if not timestamp:
        raise selection.absent(contents, name)
    answer = {
        "content": str(contents),
        "name": name,
        "timestamp": str(timestamp),
        "time": to_text(timestamp),
    }
    show.answer(answer, f"{contents}: {name!r} is deleted since {to_text(timestamp)}.", json)
