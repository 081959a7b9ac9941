"""The shared token of a cluster: members and clients must present it. It is read from a file or the environment, never typed.

A token file holds one token, or two while the cluster's token is changed, one a line. The first one is shown to others. A node
accepts both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kvwal.config import check_file
from kvwal.errors import ConfigError
from kvwal.ports.disk import OS_DISK

VARIABLE, FILE_VARIABLE = "KVWAL_TOKEN", "KVWAL_TOKEN_FILE"
AUTHORITY_VARIABLE = "KVWAL_AUTHORITY"
_HINT = "Make one with: head -c 32 /dev/urandom | base64"
_SHAPE = re.compile(r"[!-~]{16,256}")
_MOST = 2


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


class TokenSource:
    """The tokens of a cluster as they are now, and the file that they come from, which may change at any time."""

    def __init__(self, tokens: tuple[Token, ...], path: Path | None = None) -> None:
        """`path` is the file to read again; None for tokens that stay as they are."""
        self.tokens = tokens
        """One or two. The first is shown to others, a node accepts both."""
        self.path = path

    @property
    def shown(self) -> Token:
        """The token that is shown to others."""
        return self.tokens[0]

    def refresh(self) -> bool:
        """Read the file again; whether it holds other tokens now. `ConfigError` if it cannot be used now: the tokens stay."""
        if self.path is None:
            return False
        before, self.tokens = self.tokens, _read(self.path)
        return [token.reveal() for token in before] != [token.reveal() for token in self.tokens]


def find_token(named: str | None, environment: Mapping[str, str] = os.environ) -> TokenSource | None:
    """The tokens of the file `named`; else of the file in KVWAL_TOKEN_FILE; else the one in KVWAL_TOKEN; else None."""
    path = named or environment.get(FILE_VARIABLE)
    if path:
        return read_token(path)
    text = environment.get(VARIABLE)
    return TokenSource((Token(text.strip(), VARIABLE),)) if text else None


def find_authority(environment: Mapping[str, str] = os.environ) -> str | None:
    """The file that a client checks certificates with, as KVWAL_AUTHORITY names it."""
    named = environment.get(AUTHORITY_VARIABLE)
    return str(check_file(AUTHORITY_VARIABLE, named)) if named else None


def read_token(named: str) -> TokenSource:
    """The tokens of a file. `ConfigError` if there are none."""
    path = check_file("token file", named)
    try:
        # A pipe, as a shell makes it of <(…), has no size. It can be read once only: the second time it would wait for ever.
        again = path.absolute() if OS_DISK.size(path) else None
    except OSError as error:
        raise _unreadable(path, error) from error
    return TokenSource(_read(path), again)


def _read(path: Path) -> tuple[Token, ...]:
    try:
        text = OS_DISK.read(path).decode("ascii", "replace")
    except OSError as error:
        raise _unreadable(path, error) from error
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) > _MOST:
        raise ConfigError(
            f"the token file {path} holds {len(lines)} tokens, and may hold two: one a line.",
            hint="Leave the token of the cluster alone in it, or two tokens while the token is changed.",
        )
    if len(lines) < _MOST:
        return (Token("".join(lines), f"what {path} holds"),)
    return tuple(
        Token(line, f"the {place} token of {path}") for line, place in zip(lines, ("first", "second"), strict=True)
    )


def _unreadable(path: Path, error: OSError) -> ConfigError:
    hint = "Mend its owner and mode: the user of kvwal must read it." if isinstance(error, PermissionError) else _HINT
    return ConfigError(f"the token file {path} cannot be read ({error.strerror}).", hint=hint)
