"""Where the bytes of contents that are stored are read: the folders of logs, then the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kvwal.archiver.kept_contents import kept_files
from kvwal.content.containers.record import claim_folders
from kvwal.content.folder import claim_files
from kvwal.content.source import ContentSource
from kvwal.log.files.names import log_folder
from kvwal.ports.disk import Disk
from kvwal.store.options import Options
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects


class StoredSource(ContentSource):
    """The claim files of a business that is only read: nothing is brought back from the archive."""

    def __init__(
        self, disk: Disk, folders: Callable[[], Iterable[Path]], archived: Callable[[], ArchivedContents | None]
    ) -> None:
        """See `ContentSource`."""
        super().__init__(disk, folders, archived)
        self._stored_in = folders

    def sizes(self) -> dict[str, int]:
        """The bytes of all copies of each claim file beside the logs, by its name. Without logs, those in the archive."""
        sizes: dict[str, int] = {}
        folders = list(self._stored_in())
        for file in (file for folder in folders for file in claim_files(self._disk, folder)):
            with suppress(FileNotFoundError):  # the process that holds the store has collected it meanwhile
                sizes[file.name] = sizes.get(file.name, 0) + self._disk.size(file.path)
        archived = None if folders else self._archived()
        return sizes if archived is None else archived.sizes()

    def kept(self) -> set[str]:
        """The claim files beside the logs that only history names, as their last cleaning found them."""
        return {file for folder in self._stored_in() for file in kept_files(self._disk, folder)}


def source_of_logs(
    options: Options, business: str, places: Callable[[], Iterable[Place]], archive: Callable[[], Objects | None]
) -> StoredSource:
    """The source of a business whose logs are at `places` under a root. The archive is opened when a file is in none."""

    def folders() -> Iterator[Path]:
        return (one for place in places() for one in claim_folders(options.disk, log_folder(options.root, place)))

    names = (options.namespace, options.cluster, business)
    return StoredSource(options.disk, folders, lambda: archived_contents(archive(), *names))


def source_of_archive(disk: Disk, objects: Objects, namespace: str, cluster: str, business: str) -> StoredSource:
    """The source of a business that is read from an archive alone."""
    return StoredSource(disk, lambda: (), lambda: archived_contents(objects, namespace, cluster, business))


def archived_contents(objects: Objects | None, namespace: str, cluster: str, business: str) -> ArchivedContents | None:
    """The claim files of a business in an archive; None without one."""
    return None if objects is None else ArchivedContents(objects, namespace, cluster, business)
