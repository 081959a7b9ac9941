"""kvwal ttl: the time that a key has left, and its change."""

from __future__ import annotations

from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.commands.data import ABSENT
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import LEAST_DURATION, AcceptClock, EntryKey, Json, duration_parser
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ConfigError
from kvwal.hlc import to_text
from kvwal.ports.clock import SYSTEM


def ttl(
    selection: StoreSelection,
    key: EntryKey,
    set_: Annotated[
        float | None,
        typer.Option(
            "--set",
            metavar="TTL",
            help="Let the key expire in 90s, 90m, 24h, 7d; a plain number is seconds.",
            show_default=False,
            parser=duration_parser("--set", least=LEAST_DURATION),
        ),
    ] = None,
    never: Annotated[bool, typer.Option("--none", help="Let the key never expire.")] = False,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Print the seconds until a key expires, `none` if it never will. Exit code 1 if the key is absent.

    With --set or --none change it first. The value stays, and a key that is absent stays absent.
    """
    if set_ is not None or never:
        _touch(selection, key, set_, never, accept_clock)
    with selection.reader() as store:
        entry = store.read_business(key.business, logged=True).find(*key.identity())
    if entry is None:
        raise _absent(key)
    if not entry.expires:
        show.answer({"seconds": None}, "none", json)
        return
    seconds = max(0, entry.expires - SYSTEM.wall_ms()) / 1000
    expires = to_text(entry.expires << TIMESTAMP_SHIFT)
    show.answer({"seconds": seconds, "expires": expires}, f"{seconds:.1f} s, until {expires}", json)


def _touch(selection: StoreSelection, key: EntryKey, seconds: float | None, never: bool, accept_clock: bool) -> None:
    """Set the time to live that was typed, or take it away. Raises `ConfigError` for both."""
    if seconds is not None and never:
        raise ConfigError("--set and --none exclude each other; nothing was written.", hint="Give one of them.")
    with selection.writer(existing=key.business, accept_clock=accept_clock) as store:
        is_there = store.map(key.business).touch(key.decoded(), seconds)
    if not is_there:
        raise _absent(key)
    selection.check_archived(store)


def _absent(key: EntryKey) -> typer.Exit:
    show.note(f"kvwal: {key.business} has no {key.key!r}.")
    return typer.Exit(ABSENT)
