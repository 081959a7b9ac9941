"""kvwal provenance options: provenance is switched on and off, and how long its events are kept."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.options import LEAST_DURATION, AcceptClock, Business, Json, LogSelection, count_parser, duration_parser
from kvwal.errors import ConfigError


def provenance_options(
    logs: LogSelection,
    business: Business,
    on: Annotated[bool, typer.Option("--on", help="Changes leave events from now on.")] = False,
    off: Annotated[bool, typer.Option("--off", help="Changes leave none any more.")] = False,
    keep: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            help="Drop files whose events are all older: 12h, 30d.",
            show_default=False,
            parser=duration_parser("--keep", least=LEAST_DURATION),
        ),
    ] = None,
    keep_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            help="Drop the oldest files while all have more bytes.",
            show_default=False,
            parser=count_parser("--keep-bytes", 1),
        ),
    ] = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Set the options of the provenance of a map and its queues, and print all of them.

    They are stored in the log, and hold for every program that opens the store.
    """
    if on and off:
        raise ConfigError("--on and --off are opposites; nothing was changed.", hint="Give one of them.")
    changes: dict[str, Any] = {"on": on} if on or off else {}
    if keep is not None:
        changes["keep_seconds"] = keep
    if keep_bytes is not None:
        changes["keep_bytes"] = keep_bytes
    logs.logs(business)
    with logs.open(accept_clock=accept_clock) as store:
        options = store.provenance(business, switches_on=False).set_options(**changes)
    told = {"on": options.on, "keep_seconds": options.keep_seconds, "keep_bytes": options.keep_bytes}
    sentence = f"{business}: provenance is {'on' if options.on else 'off'}, keep {_said(options.keep_seconds, 's')} and"
    show.answer(told, f"{sentence} {_said(options.keep_bytes, ' bytes')}.", json)
    logs.check_archived(store)


def _said(number: float | None, unit: str) -> str:
    return "all" if number is None else f"{number:,.0f}{unit}"
