"""Commands on whole maps: maps, drop."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, Business, Json
from kvwal.config import MIB
from kvwal.counted import counted
from kvwal.errors import ConfigError, KvwalError
from kvwal.location.parse import ClusterLocation
from kvwal.location.readers import LocationReader

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
COUNTED_BYTES = 16 * MIB
"""The greatest size, in bytes, of a map whose keys are counted. Counting reads all entries, which may take minutes."""


def maps(selection: StoreSelection, json: Json = False) -> None:
    """Print the maps of a store, each with its number of keys and its size in bytes.

    The size is that of its logs, or of its objects in an archive. Members of a cluster know the number of keys, and no size.
    Elsewhere keys are counted by reading, of maps up to 16 MiB; of larger ones `kvwal query` counts them.
    """
    selection.businesses()
    refused: list[KvwalError | PermissionError] = []
    with selection.reader() as store:
        rows = [(name, _keys(store, name, size, refused), size) for name, size in store.sizes().items()]
    show.outcome(["map", "keys", "bytes"], rows, json, "There is no map here yet.")
    if refused:
        raise refused[0]


def _keys(
    store: LocationReader, name: str, size: int | None, refused: list[KvwalError | PermissionError]
) -> int | None:
    """The number of keys of a map; None if it is too large, or if it was refused: damage of one map hides no other map."""
    if size is not None and size > COUNTED_BYTES:
        return None
    try:
        return store.read_business(name).count()
    except (KvwalError, PermissionError) as error:
        refused.append(error)
        return None


def drop(
    selection: StoreSelection,
    business: Business,
    yes: Yes = False,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Delete all keys of a map of a folder, after asking on the terminal. Their history stays as long as it is kept.

    Exit code 1 if the answer is no.
    """
    if isinstance(selection.parsed(), ClusterLocation):
        raise ConfigError(
            f"{selection.location} is a cluster, and a map of a cluster goes for all of its clients; nothing was deleted.",
            hint=f"A program destroys it: kvwal.connect(…).hazelcast.get_map({business!r}).destroy(). Or empties it: clear().",
        )
    with selection.writer(existing=business, accept_clock=accept_clock) as store:
        target = store.map(business)
        keys = counted(len(target), "key")
        question = f"Delete {keys} of {business}? Their history stays as long as it is kept."
        if not yes and not confirmed(f"{business} has {keys}", question):
            show.note(f"kvwal: {business} was not dropped.")
            raise typer.Exit(1)
        deleted = len(target)
        target.clear()
    sentence = f"{business}: {counted(deleted, 'key')} deleted. Their history stays as long as it is kept."
    show.answer({"map": business, "deleted": deleted}, sentence, json)
    selection.check_archived(store)


def confirmed(found: str, question: str) -> bool:
    """The answer to the question whether to delete what was found. Raises `ConfigError` if nobody can answer."""
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{found}, and standard input is no terminal on which to ask; nothing was deleted.",
            hint="Give --yes.",
        )
    return typer.confirm(question, err=True)
