"""kvwal console: the HTTP server of a store."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Annotated

import typer

from kvwal.cli.locations import StoreSelection
from kvwal.cluster.token import read_token
from kvwal.errors import ConfigError
from kvwal.lineage.openlineage.event_store import EventStore
from kvwal.lineage.openlineage.runs import BUSINESS
from kvwal.node.command import log_as_json
from kvwal.node.config import parse_address
from kvwal.ports.logger import get_logger
from kvwal.spark.index import node_of_mark

_NEEDED = ("jsonschema", "starlette", "uvicorn")


def console(
    selection: StoreSelection,
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Serve there.")] = "127.0.0.1:18080",
    token_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Answer to callers that show the token in FILE. Needed unless HOST is the loopback address.",
        ),
    ] = None,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Take events of OpenLineage; without it the console only reads.")
    ] = False,
) -> None:
    """Serve a store over HTTP until SIGTERM or SIGINT: events of OpenLineage at POST /api/v1/lineage, its health at /healthz.

    In a folder, the console that takes events is a node of its own: name it with --node where recorders write to the folder, too.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(f"the console needs {', '.join(missing)}.", hint="Install it: pip install 'kvwal[console]'.")
    from kvwal.console.service import check_access, serve

    address = parse_address(http, "--http")
    tokens = read_token(token_file) if token_file is not None else None
    check_access(address, tokens)
    log_as_json()
    log = get_logger(__name__)
    began = partial(log.info, "the console serves", http=http, location=selection.location, writes=allow_writes)
    if not allow_writes:
        selection.check_there()
        serve(address, tokens, None, began)
        return
    with selection.writer() as store:
        serve(address, tokens, EventStore(store.map(BUSINESS), node_of_mark(store)), began)
    selection.check_archived(store)
