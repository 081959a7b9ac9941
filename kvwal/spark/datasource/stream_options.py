"""The options of `spark.readStream.format("kvwal")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.hlc import from_text, to_timestamp
from kvwal.location.parse import ClusterLocation, FolderLocation, parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.spark.datasource.options import HISTORY, ReadOptions, read_options
from kvwal.structures.watch import Positions, parse_position

AFTER, ROWS, BYTES = "after", "maxRowsPerTrigger", "maxBytesPerTrigger"
_OWN = {name.lower(): name for name in (AFTER, ROWS, BYTES)}


class StreamOptions(NamedTuple):
    """What to stream: a business in an archive, in the folder of a store, in both, or in a cluster (`read.store`, if the other
    two are None); where to begin (None: with all that is kept); and the most rows and bytes of a batch.
    """

    read: ReadOptions
    archive: str | None
    root: str | None
    after: int | Positions | None
    rows: int | None
    bytes: int | None


def check_options(options: Mapping[str, str]) -> None:
    """Check the options before it is known whether a batch or a stream is read. Raises ConfigError."""
    given = {name.lower(): value for name, value in options.items()}
    if given.keys() & _OWN.keys():
        stream_options(options)
    elif given.get("archive") and given.get("store"):  # of a stream; the reader of a batch refuses the two together
        read_options({name: value for name, value in given.items() if name != "store"})
    else:
        read_options(options)


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """The options of a stream, checked. Raises ConfigError, which names the option."""
    given = {name.lower(): value for name, value in options.items()}
    own = {name: given.pop(name.lower(), "") for name in _OWN.values()}
    if given.pop("view", HISTORY) != HISTORY:
        raise ConfigError("a stream of format kvwal has every change.", hint="Leave out the option 'view'.")
    archive, store = given.get("archive") or None, given.get("store") or None
    read = read_options({name: value for name, value in given.items() if name != "store" or archive is None})
    root = _root(store, archive) if store is not None else None
    return StreamOptions(
        read, read.archive, root, _after(own[AFTER]), _count(ROWS, own[ROWS]), _count(BYTES, own[BYTES])
    )


def _root(store: str, archive: str | None) -> str | None:
    """The folder of the store; None if it is an archive or a cluster."""
    location = parse_location(OS_DISK, store)
    if isinstance(location, ClusterLocation) and archive is not None:
        raise ConfigError(
            f"{store}: the members of a cluster read its archive themselves.", hint="Leave out the option 'archive'."
        )
    return str(location.root.absolute()) if isinstance(location, FolderLocation) else None


def _after(typed: str) -> int | Positions | None:
    """A timestamp, a position of a watch, or a date and time of ISO 8601, which is UTC unless it has a zone."""
    if not typed:
        return None
    if typed.isdigit():
        return to_timestamp(int(typed))
    if typed.startswith("{"):
        return parse_position(typed)
    try:
        return to_timestamp(from_text(typed))
    except ValueError as error:
        raise ConfigError(
            f"the option '{AFTER}' is {typed!r}.",
            hint="It is a timestamp of kvwal, a date and time (2026-01-31T12:00:00, UTC unless it has a zone), or a position of a"
            " watch.",
        ) from error


def _count(name: str, typed: str) -> int | None:
    if not typed:
        return None
    if not typed.isdigit() or int(typed) < 1:
        raise ConfigError(f"the option '{name}' is {typed!r}.", hint="It is a whole number above 0.")
    return int(typed)
