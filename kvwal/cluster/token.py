"""The shared token of a cluster: members and clients must present it. It is read from a file or the environment, never typed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kvwal.errors import ConfigError
from kvwal.ports.disk import OS_DISK

VARIABLE, FILE_VARIABLE = "KVWAL_TOKEN", "KVWAL_TOKEN_FILE"
AUTHORITY_VARIABLE = "KVWAL_AUTHORITY"
_HINT = "Make one with: head -c 32 /dev/urandom | base64"
_SHAPE = re.compile(r"[!-~]{16,256}")


class Token:
    """A secret that no message shows."""

    def __init__(self, text: str, where: str) -> None:
        """`where` says in an error which token it is that cannot be one."""
        if not _SHAPE.fullmatch(text):
            raise ConfigError(f"{where} is no token: it needs 16 to 256 printable ASCII characters.", hint=_HINT)
        self._text = text

    def __repr__(self) -> str:
        return "Token(…)"

    def reveal(self) -> str:
        """The secret itself, for what sends or compares it."""
        return self._text


def find_token(named: str | None, environment: Mapping[str, str] = os.environ) -> Token | None:
    """The token of the file `named`; else of the file in KVWAL_TOKEN_FILE; else KVWAL_TOKEN; else None."""
    path = named or environment.get(FILE_VARIABLE)
    if path:
        return read_token(path)
    text = environment.get(VARIABLE)
    return Token(text.strip(), VARIABLE) if text else None


def find_authority(environment: Mapping[str, str] = os.environ) -> str | None:
    """The file that a client checks certificates with, as KVWAL_AUTHORITY names it."""
    return environment.get(AUTHORITY_VARIABLE) or None


def read_token(path: str) -> Token:
    """The token of a file. `ConfigError` if there is none."""
    try:
        text = OS_DISK.read(Path(path)).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"the token file {path} cannot be read ({error.strerror}).", hint=_HINT) from error
    return Token(text, f"what {path} holds")
