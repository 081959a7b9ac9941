"""Which product a folder belongs to, for the sentence about a folder that was mistyped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.importers.flume import folders as flume
from kvwal.importers.nifi import folders as nifi
from kvwal.importers.seatunnel import folders as seatunnel
from kvwal.importers.source import folders_in, unreadable
from kvwal.ports.disk import Disk

_MOST_SHOWN = 5
_MOST_FOLDERS = 200
"""How many folders are looked into: a mistyped folder may be the root of a disk."""


class Product(NamedTuple):
    """A product: its word in the command line, its name, what its folder is called in a sentence, and how it is recognized."""

    word: str
    name: str
    what: str
    is_log: Callable[[Disk, Path], bool]


SEATUNNEL = Product(
    "seatunnel", "SeaTunnel", "the folder of a cluster or of a business of its IMap storage", seatunnel.is_log
)
FLUME = Product("flume", "Flume", "the folder that has the data folders of a file channel", flume.is_log)
NIFI = Product("nifi", "NiFi", "the folder of a FlowFile repository", nifi.is_log)
PRODUCTS = (SEATUNNEL, FLUME, NIFI)


def check_folder(disk: Disk, folder: Path, product: Product) -> None:
    """Raise `ConfigError` unless the folder has a log of this product. The sentence says where there is one nearby."""
    if product.is_log(disk, folder):
        return
    try:
        disk.names(folder)
    except OSError as error:
        raise unreadable(folder, error) from error
    if not disk.is_folder(folder) and disk.exists(folder):
        raise ConfigError(f"{folder} is a file; nothing was imported.", hint=f"Name {product.what}.")
    if not disk.is_folder(folder):
        raise ConfigError(f"{folder}: there is no such folder; nothing was imported.", hint=f"Name {product.what}.")
    other = next((each for each in PRODUCTS if each.is_log(disk, folder)), None)
    if other is not None:
        raise ConfigError(
            f"{folder} has a log of {other.name}, and none of {product.name}; nothing was imported.",
            hint=f"Type `kvwal import {other.word}`.",
        )
    above = next((each for each in list(folder.parents)[:2] if product.is_log(disk, each)), None)
    if above is not None:
        raise ConfigError(
            f"{folder} is a part of {product.name}'s log in {above}; nothing was imported.", hint=f"Name {above}."
        )
    if below := _below(disk, folder, product):
        shown = ", ".join(map(str, below[:_MOST_SHOWN]))
        raise ConfigError(
            f"{folder} has no log of {product.name} itself, and folders in it have; nothing was imported.",
            hint=f"Name one: {shown}.",
        )
    raise ConfigError(f"{folder} has no log of {product.name}; nothing was imported.", hint=f"Name {product.what}.")


def _below(disk: Disk, folder: Path, product: Product) -> list[Path]:
    """The logs of a product one or two levels below a folder."""
    children = list(folders_in(disk, folder))[:_MOST_FOLDERS]
    if found := [each for each in children if product.is_log(disk, each)]:
        return found
    grandchildren = [each for child in children for each in folders_in(disk, child)][:_MOST_FOLDERS]
    return [each for each in grandchildren if product.is_log(disk, each)]
