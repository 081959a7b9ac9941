"""Which command a line that begins with `import` or `export` is: that of a product, or that of a store of a product's name."""

from __future__ import annotations

import glob
import os.path
from collections.abc import Sequence

from kvwal.cli.transfer.standard_input import STANDARD_INPUT

_WORDS = {"import": ("seatunnel", "flume", "nifi", "openlineage"), "export": ("openlineage",)}
_OF_FILES = ("--key", "--format")
"""Options that only the import of a file has."""


def is_product(typed: Sequence[str]) -> bool:
    """Whether the line is `import seatunnel|flume|nifi DIR LOCATION`, `import openlineage FILE LOCATION`, or `export openlineage
    LOCATION [FILE]`.

    The folder of a store may be called as a product is. A line that names a file, or standard input, behind the map imports it
    into that store, as does a line without a FILE if the store is there. `export` means such a folder if it is a store.
    """
    if len(typed) < 2 or typed[1] not in _WORDS.get(typed[0], ()):
        return False
    rest = typed[2:]
    if typed[0] == "export":
        return not _is_store(typed[1])
    if any(word == STANDARD_INPUT or word.partition("=")[0] in _OF_FILES for word in rest):
        return False
    if any(os.path.isfile(word) for word in rest[1:]):
        return False
    return len(rest) != 1 or rest[0].startswith("-") or not _is_store(typed[1])


def _is_store(folder: str) -> bool:
    """Whether a folder has a log: a namespace, a cluster, a business and a node, with the node's lock file."""
    return next(glob.iglob(os.path.join(folder, "*", "*", "*", "*", "LOCK")), None) is not None
