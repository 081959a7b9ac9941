"""kvwal console: the HTTP server of a store."""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Annotated

import typer

from kvwal.cli.commands.doctor import findings_of
from kvwal.cli.locations import StoreSelection
from kvwal.cluster.token import read_token
from kvwal.errors import ConfigError
from kvwal.location.parse import FolderLocation
from kvwal.node.command import log_as_json
from kvwal.node.config import parse_address
from kvwal.ports.disk import others_may_read
from kvwal.ports.logger import get_logger
from kvwal.ports.posix.heap import share_heap
from kvwal_archive.objects import without_credentials

_COLLECT_AFTER = 50_000
"""New objects until a collection of garbage. An answer makes hundreds of thousands, which live until it is sent: with Python's
700 a fourth of its time goes into collections.
"""
_NEEDED = ("jinja2", "jsonschema", "starlette", "uvicorn")


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
        bool,
        typer.Option(
            "--allow-writes", help="Take events of OpenLineage, and changes of keys; without it the console only reads."
        ),
    ] = False,
) -> None:
    """Serve a store over HTTP until SIGTERM or SIGINT: pages, Spark's REST API at /api/v1, kvwal's at /api/kvwal/v1.

    In a folder, the console that takes events is a node of its own: name it with --node where recorders write to the folder, too.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(f"the console needs {', '.join(missing)}.", hint="Install it: pip install 'kvwal[console]'.")
    from kvwal.console.service import Place, Served, check_access, serve

    address = parse_address(http, "--http")
    tokens = read_token(token_file) if token_file is not None else None
    check_access(address, tokens)
    log_as_json()
    log = get_logger(__name__)
    if tokens is not None and tokens.path is not None and others_may_read(tokens.path):
        log.warning(
            "every user of this machine may read the token file", file=str(tokens.path), hint=f"chmod 600 {tokens.path}"
        )
    at = selection.parsed()  # pages show a folder with its whole path: their readers are in other folders
    shown = os.path.abspath(at.root) if isinstance(at, FolderLocation) else without_credentials(selection.location)
    began = partial(log.info, "the console serves", http=http, location=shown, writes=allow_writes)
    read = replace(selection, node=None) if allow_writes else selection  # it writes as one node, and reads all of them
    place = Place(read.location, read.namespace, read.cluster, read.node, read.archive)
    served = Served(shown, place, read.reader, partial(findings_of, read), None)
    share_heap()
    gc.freeze()  # what exists now lives as long as the process
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    if not allow_writes:
        selection.check_there()
        serve(address, tokens, served, began)
        return
    with selection.writer() as store:
        serve(address, tokens, served._replace(store=store), began)
    selection.check_archived(store)
