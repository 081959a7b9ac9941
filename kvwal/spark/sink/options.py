"""The options of `df.write.format("kvwal")` and of `df.writeStream.format("kvwal")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvwal.config import archive_location
from kvwal.errors import ConfigError
from kvwal.location.opening import Names, only_reads
from kvwal.location.parse import ArchiveLocation, FolderLocation, Location, parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.spark.values import DROP, FAIL, MODES, NULL
from kvwal.store.options import Default
from kvwal_archive.layout import check_name

_NAMES = ("store", "business", "namespace", "cluster", "node", "archive", "mode", "deleted", "staging")
_OF_SPARK = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options that Spark's own writer of a stream hands on."""


class WriteOptions(NamedTuple):
    """Where rows go: the location of a store, the names of a business in it, and a place where tasks leave their rows until the
    driver writes them (empty: in the store). `deleted` is the column that says whether a row deletes its key (empty: none was
    named), and `mode` what becomes of a row that does not fit.
    """

    store: str
    business: str
    namespace: str
    cluster: str
    node: str
    archive: str
    mode: str
    deleted: str
    staging: str

    @property
    def location(self) -> Location:
        """The store."""
        return parse_location(OS_DISK, self.store)

    @property
    def names(self) -> Names:
        """The part of the store."""
        return Names(self.namespace, self.cluster, self.node or None, self.archive or Default.ARCHIVE)

    @property
    def prefix(self) -> str:
        """The folder of the business in a staging place."""
        return f"{self.namespace}/{self.cluster}/{self.business}"


def write_options(options: Mapping[str, str], *, overwrite: bool = False) -> WriteOptions:
    """The options as Spark gives them, checked. Raises ConfigError, which names the option, and InvalidName."""
    given = {name.lower(): value for name, value in options.items() if name.lower() not in _OF_SPARK}
    known = f'To write, the options of format "kvwal" are {", ".join(_NAMES)}.'
    if unknown := sorted(given.keys() - set(_NAMES)):
        raise ConfigError(f"a write of format kvwal has no option {unknown[0]!r}; nothing was written.", hint=known)
    if not given.get("store"):
        if given.get("archive"):
            raise only_reads(ArchiveLocation(given["archive"]))
        raise ConfigError("a write of format kvwal needs the option 'store'; nothing was written.", hint=known)
    if not given.get("business"):
        raise ConfigError("a write of format kvwal needs the option 'business'; nothing was written.", hint=known)
    if overwrite:
        raise ConfigError(
            f"business {given['business']!r}: format kvwal puts and deletes keys, and never replaces a whole business;"
            " nothing was written.",
            hint='Write with mode "append" (outputMode "append" or "update"), and delete keys by rows with `deleted`.',
        )
    mode = given.get("mode", FAIL)
    if mode not in MODES:
        raise ConfigError(f"the option 'mode' is {mode!r}.", hint=f"It is {FAIL} (the default), {NULL} or {DROP}.")
    store, staging = _location(given["store"]), given.get("staging", "")
    if staging:
        staging = archive_location(staging)
    names = {name: given.get(name, default) for name, default in (("namespace", "default"), ("cluster", "local"))}
    for what, name in (*names.items(), ("map", given["business"])):
        check_name(what, name)
    rest = {name: given.get(name, "") for name in ("node", "archive", "deleted")}
    return WriteOptions(store=store, business=given["business"], mode=mode, staging=staging, **names, **rest)


def _location(typed: str) -> str:
    """The location of a store that takes writes. A folder is made absolute for the workers. Raises ConfigError for an archive."""
    location = parse_location(OS_DISK, typed)
    if isinstance(location, ArchiveLocation):
        raise only_reads(location)
    return str(location.root.absolute()) if isinstance(location, FolderLocation) else typed
