"""The contents of one open log: its claim files, and where their bytes are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kvwal.content.containers.record import claim_folders, left_out, used_containers
from kvwal.content.files import ContentFiles
from kvwal.content.source import ContentSource
from kvwal.errors import ConfigError
from kvwal.log.files.names import find_places, log_folder
from kvwal.log.log import Log, not_opened
from kvwal.store.contents.sources import archived_contents
from kvwal.store.context import StoreContext
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects, open_objects


class OpenContents:
    """`files` takes new contents of a log, `source` reads those of its business. No file is touched before there is a content."""

    def __init__(self, place: Place, log: Log, context: StoreContext, containers: Mapping[Path, Path | None]) -> None:
        """`containers` are those of `used_containers`."""
        ports = context.ports

        def tell(folder: Path, error: OSError) -> None:
            context.logger.warning(
                "a folder for contents fails, and the others take over", business=place.business, folder=str(folder),
                error=str(error),
            )  # fmt: skip

        self.files = ContentFiles(
            ports.disk, ports.clock, log.appender.space, log.folder, ports.workers.begin, containers, tell
        )
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
    yield from claim_folders(context.ports.disk, own)
    for other in find_places(context.ports.disk, context.root, place.namespace, place.cluster, place.business):
        if other != place:
            yield from claim_folders(context.ports.disk, log_folder(context.root, other))


def containers_of(place: Place, context: StoreContext) -> dict[Path, Path | None]:
    """The containers that take contents of a log, before it is opened: see `used_containers`. Raises `ConfigError`."""
    disk, folder, wanted = context.ports.disk, log_folder(context.root, place), context.settings.content_folders
    try:
        used = used_containers(disk, folder, None if wanted is None else [Path(one) for one in wanted])
    except OSError as error:
        raise not_opened(folder, error) from error
    for container in used:
        if container.is_relative_to(context.root) or context.root.is_relative_to(container):
            raise ConfigError(
                f"the container {container} and the root {context.root} lie in each other.",
                hint="Name a folder of its own for contents, on another disk.",
            )
    for container in left_out(disk, folder, used):
        context.logger.warning(
            "a folder for contents is not there: bytes that only it holds are missing", business=place.business,
            folder=str(container),
        )  # fmt: skip
    return used
