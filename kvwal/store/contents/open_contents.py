"""The contents of one open log: its claim files, and where their bytes are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvwal.content.files import ContentFiles
from kvwal.content.source import ContentSource
from kvwal.log.files.names import find_places, log_folder
from kvwal.log.log import Log
from kvwal.store.contents.sources import archived_contents
from kvwal.store.context import StoreContext
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects, open_objects


class OpenContents:
    """`files` takes new contents of a log, `source` reads those of its business. No file is touched before there is a content."""

    def __init__(self, place: Place, log: Log, context: StoreContext) -> None:
        ports = context.ports
        self.files = ContentFiles(ports.disk, ports.clock, log.appender.space, log.folder, ports.workers.begin)
        self.source = ContentSource(
            ports.disk,
            lambda: _folders(context, place, log.folder),
            lambda: archived_contents(archive_of(context), *place[:3]),
            self.files.bring_back,
        )


def archive_of(context: StoreContext) -> Objects | None:
    """The archive of a store; None if it has none."""
    return None if context.archive_url is None else open_objects(context.archive_url, context.options)


def _folders(context: StoreContext, place: Place, own: Path) -> Iterator[Path]:
    """The folder of this log, then those of other nodes under the same root, whose contents a merge may have brought here."""
    yield own
    for other in find_places(context.ports.disk, context.root, place.namespace, place.cluster, place.business):
        if other != place:
            yield log_folder(context.root, other)
