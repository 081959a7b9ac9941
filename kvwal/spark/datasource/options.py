"""The options of `spark.read.format("kvwal")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvwal.config import archive_location
from kvwal.errors import ConfigError
from kvwal.location.parse import ArchiveLocation, FolderLocation, parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.spark.values import DROP, FAIL, MODES, NULL

LATEST, HISTORY = "latest", "history"
_NAMES = ("archive", "store", "namespace", "cluster", "business", "view", "mode")


class ReadOptions(NamedTuple):
    """What to read: the URL of an archive or the location of another store, the names of a business in it, whether all changes
    are wanted, and what becomes of a row whose value does not fit the query's schema."""

    archive: str | None
    store: str | None
    namespace: str
    cluster: str
    business: str
    history: bool
    mode: str

    @property
    def where(self) -> tuple[str, str, str]:
        """Namespace, cluster and business."""
        return self.namespace, self.cluster, self.business


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options as Spark gives them, checked. Raises ConfigError, which names the option."""
    given = {name.lower(): value for name, value in options.items()}
    known = f'The options of format "kvwal" are {", ".join(_NAMES)}.'
    if unknown := sorted(given.keys() - set(_NAMES)):
        raise ConfigError(f"format kvwal has no option {unknown[0]!r}.", hint=known)
    if not given.get("business"):
        raise ConfigError("format kvwal needs the option 'business'.", hint=known)
    if bool(given.get("archive")) is bool(given.get("store")):
        raise ConfigError("format kvwal needs one of the options 'archive' and 'store'.", hint=known)
    view = given.get("view", LATEST)
    if view not in (LATEST, HISTORY):
        raise ConfigError(f"the option 'view' is {view!r}.", hint=f"It is {LATEST} (the default) or {HISTORY}.")
    mode = given.get("mode", FAIL)
    if mode not in MODES:
        raise ConfigError(f"the option 'mode' is {mode!r}.", hint=f"It is {FAIL} (the default), {NULL} or {DROP}.")
    archive, store = given.get("archive") or None, given.get("store") or None
    if store is not None:
        archive, store = _location(store)
    if archive is not None:
        archive = archive_location(archive)
    elif view == HISTORY:
        raise ConfigError(
            f"{store}: the changes of all keys are read from an archive only.",
            hint="Give the option 'archive' in place of 'store'.",
        )
    return ReadOptions(
        archive,
        store,
        given.get("namespace", "default"),
        given.get("cluster", "local"),
        given["business"],
        view == HISTORY,
        mode,
    )


def _location(typed: str) -> tuple[str | None, str | None]:
    """A location as the options `archive` and `store`, one of them None. A folder is made absolute for the workers."""
    location = parse_location(OS_DISK, typed)
    if isinstance(location, ArchiveLocation):
        return location.url, None
    return None, str(location.root.absolute()) if isinstance(location, FolderLocation) else typed
