"""The commands that only read contents: list, get, stats. They work while another process holds the folder."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.content.names import ContentsName
from kvwal.cli.content.selection import ContentsArgument, ContentStore, NameArgument
from kvwal.cli.content.transfer import path_of, to_file, to_output
from kvwal.cli.options import At, Json, count_parser
from kvwal.cli.show import Format
from kvwal.cli.tables import print_table
from kvwal.cli.text import check_text
from kvwal.content.claim import Content
from kvwal.counted import counted
from kvwal.hlc import to_text
from kvwal.store.contents.figures import figures_of


def content_list(
    selection: ContentStore,
    contents: ContentsArgument,
    prefix: Annotated[str, typer.Option(help="Only names that begin with this text.")] = "",
    at: At = None,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    json: Json = False,
) -> None:
    """Print the names of contents in their order, each with its bytes, its last change and its attributes.

    Exit code 1 if there is none.
    """
    form = Format.json if json else format
    with selection.reading(contents, at) as found:
        listed = found.list(check_text("--prefix", prefix))
        first = next(listed, None)
        if first is None:
            raise selection.nothing_in(contents, prefix, at)
        every = chain([first], listed)
        if form is Format.json:
            show.json_lines(map(as_json, every))
            return
        rows = ((one.name, one.length, to_text(one.timestamp), one.attributes or None) for one in every)
        show.rows(["name", "bytes", "changed", "attributes"], rows, form)


def as_json(content: Content) -> dict[str, Any]:
    """Fields of a content, for a program. The timestamp is a string, because it exceeds the numbers of JSON."""
    return {
        "name": content.name,
        "bytes": content.length,
        "sha256": content.sha256,
        "attributes": content.attributes,
        "timestamp": str(content.timestamp),
        "time": to_text(content.timestamp),
    }


def content_get(
    selection: ContentStore,
    contents: ContentsArgument,
    name: NameArgument,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write into this new file; - for standard output, also if that is a terminal.",
            show_default=False,
        ),
    ] = None,
    offset: Annotated[
        int, typer.Option(metavar="N", help="Leave out the first N bytes.", parser=count_parser("--offset", 0))
    ] = 0,
    length: Annotated[
        int | None,
        typer.Option(metavar="N", help="At most N bytes.", show_default=False, parser=count_parser("--length", 0)),
    ] = None,
    at: At = None,
) -> None:
    """Write the bytes of a content to standard output, or into a new file. Exit code 1 if there is none of this name.

    A content that is read whole has its checksum compared before the first byte is written. If its bytes are damaged, those of
    the archive are written; without them it is exit code 4. A new file is there whole or not at all. A terminal gets plain text
    only, unless it is asked for with `-o -`.
    """
    target = None if output is None else path_of("file of -o", output)
    with selection.reading(contents, at) as found:
        try:
            total = found.stat(name).length
            is_whole = not offset and (length is None or length >= total)
            data = found.open_checked(name) if is_whole else found.open(name, offset=offset, length=length)
        except KeyError:
            raise selection.absent(contents, name, at) from None
        if target is None:
            to_output(data, name, asked=output is not None)
            return
        rest = max(0, total - offset)
        written = to_file(target, data, rest if length is None else min(length, rest))
    show.note(f"kvwal: {counted(written, 'byte')} written to {target}.")


def content_stats(selection: ContentStore, contents: ContentsArgument, json: Json = False) -> None:
    """Print the figures of contents: their number and bytes; and those of all contents of the business: their claim files, the
    bytes of these on disk, and the share of them that is of contents as they are now. The rest is of their history, allocated
    ahead, or not collected yet. Kept bytes are of claim files that only history names.
    """
    with selection.reading(contents) as found:
        figures = figures_of(found)
    if json:
        show.json_line({"content": str(contents)} | figures)
    else:
        _print_figures(contents, figures)
    if not figures["contents"]:
        raise selection.nothing_in(contents)


def _print_figures(contents: ContentsName, figures: dict[str, Any]) -> None:
    share = figures["live_share"]
    shown = figures | {"live_share": None if share is None else f"{share:.1%}"}
    print_table(["", ""], [("content", str(contents)), *shown.items()])
