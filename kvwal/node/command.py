"""The command `kvwal node`, as typer takes it. Nothing of the cluster is loaded until it is known to be there."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import structlog
import typer

from kvwal.errors import ConfigError
from kvwal.node import config

_NEEDED = ("jpype", "starlette", "uvicorn", "prometheus_client")


def node(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="The folder of the store.", show_default=False)],
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
    flush: Annotated[str, typer.Option(help="When a write is acknowledged: sync, os, or milliseconds.")] = "sync",
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE", help="After a total loss, do not wait for this member (name or address). May be repeated."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The node's file; see deploy/node.toml.")
    ] = None,
) -> None:
    """Be a member of the cluster: Hazelcast's memory, with a log under every map."""
    own = config.parse_address(address, "--address")
    listed = [config.parse_address(member, "--members") for member in members.split(",")] if members else [own]
    options = config.NodeOptions(
        root=root, namespace=namespace, cluster=cluster, node=node, address=own, members=listed, archive=archive,
        http=config.parse_address(http, "--http") if http else None, flush=config.parse_flush(flush),
        file=config.read_file(file), without=tuple(without or ()),
    )  # fmt: skip
    config.check(options)
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"a node needs {', '.join(missing)}.", hint="Install what the cluster needs: pip install 'kvwal[cluster]'."
        )
    log_as_json()
    from kvwal.node.service import run

    run(options)


def log_as_json() -> None:
    """One JSON object a line, on standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
