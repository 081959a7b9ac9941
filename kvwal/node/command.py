"""The typer command `kvwal node`. It imports the service only after it has seen that the cluster's packages are installed."""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from types import TracebackType
from typing import Annotated

import typer

from kvwal.cluster.token import find_token, read_token
from kvwal.config import check_file, check_folder
from kvwal.errors import EXIT_CODES, ConfigError, Kind, KvwalError
from kvwal.node import config, preflight
from kvwal.node.health.repeated_lines import LimitedHandler
from kvwal.ports.logger import JsonLines, get_logger, log_to

_NEEDED = ("jpype", "starlette", "uvicorn", "prometheus_client")


def node(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="The folder of the store.", show_default=False)],
    address: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where other members and clients reach this one.", show_default=False),
    ],
    node: Annotated[str, typer.Option(help="This node's name.", show_default=False)],
    members: Annotated[
        str | None,
        typer.Option(
            metavar="H:P,H:P,…", help="Every member of the cluster, this one too. Without it: this one alone."
        ),
    ] = None,
    namespace: Annotated[str, typer.Option(help="The namespace.")] = "default",
    cluster: Annotated[str, typer.Option(help="The cluster: Hazelcast's cluster name too.")] = "local",
    archive: Annotated[
        str | None, typer.Option(help="URL or folder of the archive, or 'none'. Needed with several members.")
    ] = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve /healthz, /readyz and /metrics there.")
    ] = None,
    flush: Annotated[str, typer.Option(help="When a write is acknowledged: sync, os, or a duration, 100ms.")] = "sync",
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE", help="After a total loss, do not wait for this member (name or address). May be repeated."
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="The node's file; see deploy/node.toml.")
    ] = None,
) -> None:
    """Be a member of the cluster: Hazelcast's memory, with a log under every map."""
    own = config.parse_address(address, "--address")
    listed = [config.parse_address(member, "--members") for member in members.split(",")] if members else [own]
    told = config.read_file(None if file is None else check_file("file of --config", file))
    options = config.NodeOptions(
        root=check_folder("root", root), namespace=namespace, cluster=cluster, node=node, address=own, members=listed,
        archive=archive,
        http=config.parse_address(http, "--http") if http else None, flush=config.parse_flush(flush),
        file=told, without=tuple(without or ()), token=find_token(told.token_file),
        http_token=read_token(told.http_token_file) if told.http_token_file else None,
    )  # fmt: skip
    config.check(options)
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"a node needs {', '.join(missing)}.", hint="Install what the cluster needs: pip install 'kvwal[cluster]'."
        )
    preflight.check(options)
    log_as_json()
    preflight.warn(options)
    from kvwal.node.service import run

    try:
        run(options)
    except KvwalError as error:
        get_logger(__name__).error(str(error), node=node, kind=type(error).__name__)
        raise typer.Exit(EXIT_CODES[error.kind]) from error


def log_as_json() -> None:
    """Log to standard error, one JSON object a line: kvwal's lines, those of its libraries, warnings, and uncaught errors.

    Repeated warnings and errors are counted: see `LimitedHandler`.
    """
    log_to(LimitedHandler(sys.stderr), JsonLines(), level=logging.WARNING, own_level=logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = report_bug


def report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Excepthook: log an uncaught error as a bug of kvwal, and exit with the code of a bug."""
    get_logger(__name__).error(
        "this is a bug of kvwal; please report it with this line. What was acknowledged is safe.",
        exc_info=(kind, error, trace),
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODES[Kind.BUG])
