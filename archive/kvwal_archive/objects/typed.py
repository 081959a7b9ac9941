"""Folders and addresses as people type them: in a program, on a command line, in a setting of Spark, in a file.

One grammar for all of kvwal: `scheme://rest` and `scheme:/rest` are addresses. `host:port` and `s3:rest` are mistakes,
because they would become folders. Everything else is a path, of which a leading `~` is the home of a user. An empty name is
neither: it would be the current folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from kvwal_archive.errors import ConfigError

_NODE = re.compile(r"(?:kvwal:)?([A-Za-z0-9][A-Za-z0-9.-]*:[0-9]{3,5}(?:,[A-Za-z0-9.:,-]+)?)")
_BARE = re.compile(r"(s3a?|gs|gcs|az|abfss?|hdfs|file|kvwal|https?|s?ftp):([^/].*)", re.DOTALL)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+?):/(/?)(.*)", re.DOTALL)


class TypedAddress(NamedTuple):
    """An address as it was typed. With one slash (`has_two_slashes` is False) it is a mistake."""

    scheme: str
    has_two_slashes: bool
    rest: str


def address_of(typed: str | os.PathLike[str]) -> TypedAddress | None:
    """The parts of an address; None for a path. A `pathlib.Path` is a path always."""
    match = _ADDRESS.fullmatch(typed) if isinstance(typed, str) else None
    return None if match is None else TypedAddress(match[1], bool(match[2]), match[3])


def typed_path(what: str, typed: str | os.PathLike[str], kind: str = "folder") -> Path:
    """The path that was typed, with the home in the place of a leading `~`. It stays relative.

    `what` names the setting in sentences, `kind` what it is to be: a folder or a file. Raises ConfigError for an empty name, for
    one with a NUL character, for an address, and for the home of an unknown user.
    """
    path = os.fspath(typed)
    if path == "":
        hint = 'Name a folder; "." is the current one.' if kind == "folder" else "Name a file."
        raise ConfigError(f"the {what} is an empty name.", hint=hint)
    if "\0" in path:
        raise ConfigError(f"{what}={path!r} has a NUL character, which no file system takes.", hint="Correct the name.")
    if address_of(typed) is not None:
        raise ConfigError(
            f"the {what} is the address of a cluster or of an archive, and this takes a {kind}; nothing was written.",
            hint=f"`kvwal.connect` opens a cluster, `kvwal.restore` reads an archive. Write ./ before the name of a {kind}.",
        )
    if isinstance(typed, str) and kind == "folder":
        _check_no_bare_address(what, path)
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{what}={path!r} names the home of a user that is not known.", hint=f"Write ./~… if it is a {kind}."
        ) from error


def _check_no_bare_address(what: str, path: str) -> None:
    """Raise ConfigError for an address without its scheme or its slashes: it would become a folder of that name."""
    if node := _NODE.fullmatch(path):
        raise ConfigError(
            f"the {what} {path!r} is the address of a node without kvwal://, and would become a folder here.",
            hint=f"Write kvwal://{node[1]}, or ./{path} if a folder is meant.",
        )
    if bare := _BARE.fullmatch(path):
        raise ConfigError(
            f"the {what} {bare[1]}:… is an address without its slashes, and would become a folder here.",
            hint=f"Write {bare[1]}://…, or ./{bare[1]}:… if a folder is meant.",
        )
