"""Standard input of a command that takes data from it."""

from __future__ import annotations

import sys
from typing import BinaryIO

from kvwal.errors import ConfigError

STANDARD_INPUT = "-"
"""The argument that stands for standard input."""
NAME = "standard input"


def standard_input(instead: str) -> BinaryIO:
    """The bytes of standard input. A terminal is a `ConfigError`: nobody is asked to type there; `instead` says what to name."""
    if sys.stdin.isatty():
        raise ConfigError(
            f"{NAME} is a terminal; nothing was put.", hint=f"Pipe data into the command, or name {instead}."
        )
    return sys.stdin.buffer
