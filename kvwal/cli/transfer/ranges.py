"""Options that select a range of keys, and its direction and length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from kvwal.cli.options import count_parser
from kvwal.cli.text import check_text, parse_key
from kvwal.codecs import registry
from kvwal.entry import DataEntry
from kvwal.errors import ConfigError
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.structures.map.state import after_prefix
from kvwal.structures.map.view import KeyBounds


@dataclass(frozen=True)
class KeyRangeOptions:
    """Bundle: a key range (`--from` inclusive, `--to` exclusive), its direction and a limit."""

    from_: Annotated[
        str | None, typer.Option("--from", metavar="KEY", help="Keys from this one on.", show_default=False)
    ] = None
    to: Annotated[str | None, typer.Option(metavar="KEY", help="Keys before this one.", show_default=False)] = None
    key_class: Annotated[
        str | None,
        typer.Option(
            help="The class of --from and --to, if they are not text: int, datetime, tuple ….", show_default=False
        ),
    ] = None
    reverse: Annotated[bool, typer.Option("--reverse", help="The greatest keys first.")] = False
    limit: Annotated[
        int | None,
        typer.Option(
            help="Print at most N entries.", metavar="N", show_default=False, parser=count_parser("--limit", 1)
        ),
    ] = None

    def read(self, business: BusinessReader, prefix: str = "") -> Iterator[DataEntry]:
        """The entries of these keys; with a prefix only of text keys that begin with it."""
        if self == KeyRangeOptions():
            return business.entries(prefix or None)
        return business.within(self.bounds(prefix), reverse=self.reverse, limit=self.limit)

    def bounds(self, prefix: str = "") -> KeyBounds:
        """The bounds of the keys. Raises `ConfigError` and `CodecError`."""
        if self.key_class is not None and self.from_ is None and self.to is None:
            raise ConfigError("--key-class says of which class --from and --to are.", hint="Give one of these, too.")
        key_class = self.key_class or "str"
        if prefix and key_class != "str":
            raise ConfigError(
                f"--prefix selects text, and --key-class {key_class} no text.", hint="Leave out one of them."
            )
        start, stop = (_encoded(name, typed, key_class) for name, typed in (("--from", self.from_), ("--to", self.to)))
        if prefix:
            begins = check_text("--prefix", prefix).encode()
            ends = [end for end in (stop, after_prefix(begins)) if end is not None]
            return KeyBounds("str", max(start or b"", begins), min(ends, default=None))
        return KeyBounds() if start is None and stop is None else KeyBounds(key_class, start or b"", stop)


def _encoded(option: str, typed: str | None, key_class: str) -> bytes | None:
    """The stored bytes of a typed key."""
    if typed is None:
        return None
    return registry.encode_key(parse_key(check_text(option, typed) if key_class == "str" else typed, key_class))[0]
