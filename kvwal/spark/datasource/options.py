"""The options of `spark.read.format("kvwal")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvwal.config import archive_location
from kvwal.errors import ConfigError
from kvwal.history.reads.structure_rows import ALL_QUEUES, is_selection
from kvwal.key_class import OWN_MAP
from kvwal.location.parse import ArchiveLocation, ClusterLocation, FolderLocation, parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.spark.values import DROP, FAIL, MODES, NULL

LATEST, HISTORY = "latest", "history"
STRUCTURE = "structure"
_NAMES = ("archive", "store", "namespace", "cluster", "business", STRUCTURE, "view", "mode")


class ReadOptions(NamedTuple):
    """What to read: the URL of an archive or the location of another store, the names of a business in it, whether all changes
    are wanted, what becomes of a row whose value does not fit the query's schema, and which structure of the business."""

    archive: str | None
    store: str | None
    namespace: str
    cluster: str
    business: str
    history: bool
    mode: str
    structure: str = OWN_MAP

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
    structure = read_structure(options)
    archive, store = given.get("archive") or None, given.get("store") or None
    if store is not None:
        archive, store = _location(store, structure)
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
        structure,
    )


def read_structure(options: Mapping[str, str]) -> str:
    """The option `structure`, checked; `OWN_MAP` without it. Raises ConfigError."""
    structure = {name.lower(): value for name, value in options.items()}.get(STRUCTURE, OWN_MAP)
    if structure != OWN_MAP and not is_selection(structure):
        raise ConfigError(
            f"the option '{STRUCTURE}' is {structure!r}.",
            hint=f"It is queue (the business's own), queue/NAME, {ALL_QUEUES} for all queues, or map/NAME.",
        )
    return structure


def _location(typed: str, structure: str) -> tuple[str | None, str | None]:
    """A location as the options `archive` and `store`, one of them None. A folder is made absolute for the workers."""
    location = parse_location(OS_DISK, typed)
    if isinstance(location, ClusterLocation) and structure != OWN_MAP:
        raise ConfigError(
            f"{typed} is a cluster, of which Spark reads the maps of businesses only.",
            hint=f"Leave out the option '{STRUCTURE}', or name a folder.",
        )
    if isinstance(location, ArchiveLocation):
        return location.url, None
    return None, str(location.root.absolute()) if isinstance(location, FolderLocation) else typed
