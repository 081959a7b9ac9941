"""Commands that copy a business from one store to another: export, import.

A line of an export is a JSON object with the stored bytes of key and value and their classes. UTF-8 bytes are text, other
bytes are base64. Another store reads them back unchanged, even if their classes are those of a program's own codecs.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, Business, Json
from kvwal.cli.text import decoded, line
from kvwal.entry import DataEntry, Entry, make_entry
from kvwal.errors import CodecError, ConfigError
from kvwal.ports.clock import SYSTEM

BATCH_ENTRIES = 500
BATCH_BYTES = 1 << 20

Encoding = Literal["utf-8", "base64"]


class Line(msgspec.Struct, kw_only=True):
    """An entry of an export. `timestamp` is information only: an import gives the entry a new timestamp."""

    key: str
    key_class: str
    value: str
    value_class: str
    key_encoding: Encoding = "utf-8"
    value_encoding: Encoding = "utf-8"
    expires_ms: int = 0
    timestamp: str = ""


_decode = msgspec.json.Decoder(Line).decode


def export(
    selection: StoreSelection,
    business: Business,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A new file; without it, standard output.", show_default=False)
    ] = None,
) -> None:
    """Write every entry of a business as one JSON object a line, so that `import` brings it back byte for byte."""
    folder = selection.folder()
    if folder is not None:
        folder.logs(business)
    with selection.reader() as store:
        lines = (exported(entry) for entry in store.entries(business))
        if file is None:
            show.json_lines(lines)
        else:
            show.say(f"{file}: {write_file(file, lines):,} entries.")


def write_file(file: Path, lines: Iterable[dict[str, Any]]) -> int:
    """Write the lines to a new file, and return how many they were."""
    count = 0
    try:
        with open(file, "xb") as out:
            for fields in lines:
                out.write(line(fields) + b"\n")
                count += 1
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror}).", hint="Name a new file.") from error
    return count


def exported(entry: DataEntry) -> dict[str, Any]:
    """The fields of an entry's line."""
    fields: dict[str, Any] = {}
    for name, data, class_name in (("key", entry.key, entry.key_class), ("value", entry.value, entry.value_class)):
        try:
            fields[name] = data.decode()
        except UnicodeDecodeError:
            fields[name], fields[f"{name}_encoding"] = base64.b64encode(data).decode(), "base64"
        fields[f"{name}_class"] = class_name
    if entry.expires:
        fields["expires_ms"] = entry.expires
    return fields | {"timestamp": str(entry.timestamp)}


def import_(
    selection: StoreSelection,
    business: Business,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A file that `export` wrote; without it, standard input.", show_default=False
        ),
    ] = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put every entry of an export, in transactions of some hundred. Expired entries are left out.

    An entry that is there already is put again, so the command may be repeated after a failure.
    """
    written = expired = 0
    with lines_of(file) as lines, selection.writer(accept_clock=accept_clock) as store:
        target = store.map(business)
        for batch in batches(read(lines, SYSTEM.wall_ms())):
            entries = [entry for entry in batch if entry is not None]
            expired += len(batch) - len(entries)
            if entries:
                put_all(target, entries)
            written += len(entries)
    sentence = f"{written:,} entries were put" + (f", {expired:,} had expired." if expired else ".")
    show.answer({"imported": written, "expired": expired}, sentence, json)
    selection.check_archived(store)


def lines_of(file: Path | None) -> Any:
    """An open binary file with the lines of an export: `file`, or standard input."""
    try:
        return open(file, "rb") if file is not None else open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read ({error.strerror}).", hint="Name what `kvwal export` printed."
        ) from error


def read(lines: Iterable[bytes], now_ms: int) -> Iterator[Entry | None]:
    """The entries of an export; None for an expired entry. Raises `ConfigError` with the number of a line that is no entry."""
    for number, text in enumerate(lines, 1):
        try:
            parsed = _decode(text)
            key, value = data_of(parsed.key, parsed.key_encoding), data_of(parsed.value, parsed.value_encoding)
            decoded(key, parsed.key_class)
            decoded(value, parsed.value_class)
        except (msgspec.DecodeError, binascii.Error, CodecError, ValueError) as error:
            raise ConfigError(
                f"line {number} is no line of an export: {str(error).rstrip('.')}.",
                hint="Whole transactions before this line were put. Mend the line, and run it again.",
            ) from error
        expired = 0 < parsed.expires_ms <= now_ms
        yield (
            None
            if expired
            else make_entry(key, parsed.key_class, value, parsed.value_class, False, 0, parsed.expires_ms)
        )


def data_of(text: str, encoding: Encoding) -> bytes:
    """The stored bytes of a key or value."""
    return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()


def batches(entries: Iterable[Entry | None]) -> Iterator[list[Entry | None]]:
    """Entries in batches of at most `BATCH_ENTRIES`, or about `BATCH_BYTES`: one transaction each."""
    batch: list[Entry | None] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.key) + len(entry.value) if entry is not None else 0
        if len(batch) >= BATCH_ENTRIES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def put_all(target: kvwal.Map, entries: list[Entry]) -> None:
    """Put entries with their stored bytes unchanged, in one transaction."""
    target._commit(entries, True)
