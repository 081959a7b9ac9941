"""The value of `kvwal put`: an argument, standard input, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kvwal.cli import show
from kvwal.cli.text import parse_value
from kvwal.cli.transfer.standard_input import NAME, STANDARD_INPUT, standard_input
from kvwal.errors import ConfigError

_BYTES = "A value of bytes is put by a program, or by `kvwal import` as base64 with value_encoding."


def value_of(typed: str | None, file: Path | None, *, strict: bool) -> Any:
    """The value that VALUE, `-` or `--file` gives: JSON where it is JSON, else text. `strict`: what is no JSON is refused.

    Input and files end in a line end that is no part of their text: it is what `kvwal get` adds.
    """
    text, source = _typed(typed, file)
    return _json(text, source) if strict else parsed_value(text, source)


def parsed_value(text: str, source: str) -> Any:
    """The value of a text: JSON where it is JSON, else the text. A note says so of text that begins as JSON does."""
    value = parse_value(text)
    if isinstance(value, str) and text.startswith(("{", "[")):
        show.note(
            f"kvwal: {source} begins as JSON does and is none: it is put as text. In a shell JSON stands in single quotes."
        )
    return value


def _typed(typed: str | None, file: Path | None) -> tuple[str, str]:
    """The text of the value, and where it comes from."""
    if file is not None and typed is not None:
        raise ConfigError("put takes VALUE or --file, not both; nothing was put.", hint="Leave one of them out.")
    if file is not None:
        return _text(file), str(file)
    if typed is None:
        raise ConfigError(
            "put needs a value; nothing was put.", hint="Give VALUE, - for standard input, or --file PATH."
        )
    if typed == STANDARD_INPUT:
        return _text(None), NAME
    return typed, "VALUE"


def _text(file: Path | None) -> str:
    """The text in a file, or in standard input."""
    source = str(file or NAME)
    try:
        data = standard_input("a VALUE or --file PATH").read() if file is None else file.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{source}: cannot be read ({error.strerror}); nothing was put.", hint="Name a file with the value."
        ) from error
    if not data:
        raise ConfigError(f"{source} is empty; nothing was put.", hint="The empty text is the VALUE '\"\"'.")
    if b"\0" in data:
        raise ConfigError(f"{source} is no text: byte {data.index(0):,} is NUL; nothing was put.", hint=_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{source} is no UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02x}; nothing was put.",
            hint=_BYTES,
        ) from error
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _json(text: str, source: str) -> Any:
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{source} is no JSON ({error}); nothing was put.",
            hint="Text is JSON in double quotes. Or leave out --strict.",
        ) from error
