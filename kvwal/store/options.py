"""Options of a store: the checked arguments of `kvwal.open`, and the ports that the store's logs use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kvwal.archiver.remote import start_child
from kvwal.config import Flush, Settings, archive_location, check_flush, check_folder
from kvwal.errors import ConfigError
from kvwal.log.files.names import check_not_inside, choose_node, find_places
from kvwal.log.reader import Progress
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.ports.descriptors import OWN_DESCRIPTORS, Descriptors
from kvwal.ports.disk import OS_DISK, Disk
from kvwal.ports.metrics import NO_METRICS, LogMetrics
from kvwal.ports.processes import Child
from kvwal_archive.layout import Place, check_name

T = TypeVar("T")
ARCHIVE_FOLDER = "_archive"


class Default(Enum):
    """The value of an argument that was not given, where None has a meaning of its own."""

    ARCHIVE = "the folder _archive under the root"


def archive_argument(typed: str | None) -> str | Default | None:
    """The argument `archive` of `kvwal.open` for what a user typed: the default folder for nothing, no archive for 'none'."""
    if typed is None:
        return Default.ARCHIVE
    return None if typed == "none" else typed


class Options:
    """The checked arguments of `kvwal.open`."""

    def __init__(
        self,
        root: str | Path,
        *,
        namespace: str,
        cluster: str,
        node: str | None,
        archive: str | Path | Default | None,
        flush: Flush,
        storage_options: dict[str, Any] | None,
        settings: Settings | None,
        accept_clock: bool,
        progress: Progress | None,
        disk: Disk = OS_DISK,
        clock: Clock = SYSTEM,
        metrics: LogMetrics = NO_METRICS,
        descriptors: Descriptors = OWN_DESCRIPTORS,
        start_archiver: Callable[[], Child] = start_child,
    ) -> None:
        """`disk` and `clock` are the ports that the store's logs use. `metrics` receives their figures, `descriptors` is their
        budget of file descriptors, `start_archiver` starts the archiver's process.
        """
        self.disk = disk
        self.clock = clock
        self.metrics = metrics
        self.descriptors = descriptors
        self.start_archiver = start_archiver
        self.root = check_folder("root", root)
        self.namespace = check_name("namespace", namespace)
        self.cluster = check_name("cluster", cluster)
        self.named_node = node
        self.archive_named = archive is not Default.ARCHIVE and archive is not None
        self.archive_url = self._archive_url(archive)
        self.flush = check_flush(flush)
        self.storage_options = _check_storage(storage_options)
        self.settings = _check_settings(settings)
        self.accept_clock = accept_clock
        self.progress = progress
        if self.reach(lambda: disk.exists(self.root) and not disk.is_folder(self.root)):
            raise ConfigError(f"{self.root} is a file, and a root is a folder.", hint="Choose another root.")

    def as_arguments(self) -> dict[str, Any]:
        """The arguments of `kvwal.open` that open the same store again, but for its node."""
        archive = Default.ARCHIVE if self.archive_url and not self.archive_named else self.archive_url
        return {
            "namespace": self.namespace, "cluster": self.cluster, "archive": archive, "flush": self.flush,
            "storage_options": self.storage_options, "settings": self.settings,
        }  # fmt: skip

    def node(self) -> str:
        """The node whose log is written. Raises `ConfigError` if the root has several and none was named, and for a root that is
        inside of another store.
        """
        self.reach(lambda: check_not_inside(self.disk, self.root))
        return self.reach(lambda: choose_node(self.disk, self.root, self.namespace, self.cluster, self.named_node))

    def places(self, business: str | None = None, closed: set[str] | None = None) -> list[Place]:
        """The places under the root that are read: of one business or of all, of the named node, or of all nodes if none was.

        See `find_places` for `closed`. Without it, a business whose folder may not be read is a `ConfigError`.
        """
        find = partial(find_places, self.disk, self.root, self.namespace, self.cluster, business, closed)
        return [place for place in self.reach(find) if self.named_node in (None, place.node)]

    def businesses(self) -> list[str]:
        """Businesses under the root that are read, sorted; with those whose folder this user may not read."""
        closed: set[str] = set()
        return sorted({place.business for place in self.places(closed=closed)} | closed)

    def reach(self, read: Callable[[], T]) -> T:
        """The result of `read`. Raises `ConfigError` if this process may not read under the root."""
        with self.reaching():
            return read()

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Reads under the root: `ConfigError` if this process may not read there."""
        try:
            yield
        except PermissionError as error:
            raise ConfigError(
                f"{self.root}: not allowed to look here ({error.strerror}: {error.filename}).",
                hint="Mend its owner and mode: `kvwal doctor` names the files. Or choose another root.",
            ) from error

    def _archive_url(self, archive: str | Path | Default | None) -> str | None:
        if archive is None:
            return None
        if isinstance(archive, Default):
            return str(self.root / ARCHIVE_FOLDER)
        url = archive_location(archive)
        folder = Path(url.removeprefix("file://"))
        if folder == self.root or folder.is_relative_to(self.root / self.namespace):
            raise ConfigError(
                f"the archive {folder} is among the logs of the root {self.root}.",
                hint=f"Choose another folder, {self.root / ARCHIVE_FOLDER} for example.",
            )
        return url


def _check_settings(settings: Settings | None) -> Settings:
    if not isinstance(settings, Settings | None):
        raise ConfigError(f"settings={settings!r} are no settings.", hint="Give kvwal.Settings(…).")
    return settings or Settings()


def _check_storage(options: dict[str, Any] | None) -> dict[str, Any]:
    """`options`, if they can cross the pipe to the archiver's process."""
    if not isinstance(options, dict | None):
        raise ConfigError(f"storage_options={options!r} is no dict.", hint="Give names and values.")
    try:
        msgspec.json.encode(options)
    except TypeError as error:
        raise ConfigError(
            f"storage_options must be values of JSON: {error}.",
            hint="Give names, numbers and text, not objects.",
        ) from error
    return dict(options or {})
