"""kvwal backup: a copy of all logs of a root, while other processes write."""

from __future__ import annotations

from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.options import Json, Root
from kvwal.config import check_folder
from kvwal.history.restore import backup as copies
from kvwal.ports.disk import OS_DISK
from kvwal.store.absent import check_store


def backup(
    root: Root,
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="The folder of the copy; it must be new or empty.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Copy all logs of a store into a new folder, which is a store of its own. Other processes may write meanwhile."""
    source = check_folder("root", root)
    check_store(OS_DISK, source)
    report = copies.backup(OS_DISK, source, folder)
    if json:
        show.json_line(report._asdict())
        return
    show.say(
        f"{folder}: {report.logs:,} log{'s' * (report.logs != 1)}; {report.linked:,} {_files(report.linked)} linked,"
        f" {report.copied:,} copied."
    )


def _files(count: int) -> str:
    return "file is" if count == 1 else "files are"
