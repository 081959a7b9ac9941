"""The folder of a log of another product: its argument, and the lock that keeps the product from starting meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kvwal.cli.options import path_parser
from kvwal.errors import ConfigError, StoreLocked
from kvwal.ports.posix.foreign_locks import held_shared

LogFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="The folder of the log.",
        show_default=False,
        parser=path_parser("folder of the log"),
    ),
]


@contextmanager
def unlocked(folder: Path, locks: list[Path], product: str) -> Iterator[None]:
    """Keep the product from starting on its log. Raises `StoreLocked` if it runs."""
    with held_shared(locks) as held:
        if held is not None:
            raise StoreLocked(
                f"{folder}: a running {product} has locked {held.name} in {held.parent}; nothing was imported.",
                hint="Stop it first, or copy the folder while it is stopped.",
            )
        yield


def check_apart(folder: Path, location: str) -> None:
    """Raise `ConfigError` if the store would be in the folder of the log, or the other way round."""
    if "://" in location or not location:
        return
    log, store = folder.resolve(), Path(location).expanduser().resolve()
    if log == store or log in store.parents or store in log.parents:
        raise ConfigError(
            f"{folder} and {location} are one in the other; nothing was imported.",
            hint="Name a store beside the log, not in or above its folder.",
        )
