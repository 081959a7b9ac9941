"""Commands that carry a business from one store to another: export, import.

A line of the export is a JSON object with the stored bytes of key and value as they are, text where they are UTF-8 and base64
where not, and with their classes: what one store writes, any other reads back the same, classes of a program's own included.
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
from kvwal.cli.options import AcceptClock, Archive, Business, Cluster, Json, Namespace, Node, Root, Where
from kvwal.cli.text import decoded, line
from kvwal.entry import DataEntry, Entry, make_entry
from kvwal.errors import CodecError, ConfigError
from kvwal.ports.boundary import CommitFuture
from kvwal.ports.clock import SYSTEM

AT_ONCE = 500
BYTES_AT_ONCE = 1 << 20

Encoding = Literal["utf-8", "base64"]


class Line(msgspec.Struct, kw_only=True):
    """An entry of an export. `timestamp` is told only: an import stamps anew."""

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
    root: Root,
    business: Business,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A new file; without it, standard output.", show_default=False)
    ] = None,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
) -> None:
    """Write every entry of a business as one JSON object a line, so that `import` brings it back byte for byte."""
    where = Where(root, namespace, cluster, node, archive)
    where.logs(business)
    with where.open(read_only=True) as store:
        lines = (exported(entry) for entry in store.map(business).entries())
        if file is None:
            show.json_lines(lines)
        else:
            show.say(f"{file}: {write_file(file, lines):,} entries.")


def write_file(file: Path, lines: Iterable[dict[str, Any]]) -> int:
    """The lines into a file that is not there yet. How many those were."""
    count = 0
    try:
        with open(file, "xb") as out:
            for found in lines:
                out.write(line(found) + b"\n")
                count += 1
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror}).", hint="Name a new file.") from error
    return count


def exported(entry: DataEntry) -> dict[str, Any]:
    """An entry as a line has it."""
    found: dict[str, Any] = {}
    for name, data, class_name in (("key", entry.key, entry.key_class), ("value", entry.value, entry.value_class)):
        try:
            found[name] = data.decode()
        except UnicodeDecodeError:
            found[name], found[f"{name}_encoding"] = base64.b64encode(data).decode(), "base64"
        found[f"{name}_class"] = class_name
    if entry.expires:
        found["expires_ms"] = entry.expires
    return found | {"timestamp": str(entry.timestamp)}


def import_(
    root: Root,
    business: Business,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="What `export` wrote; without it, standard input.", show_default=False),
    ] = None,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put every entry of an export, in transactions of some hundred. What has expired meanwhile is left out.

    An entry that is there already is put again: run it again after a failure.
    """
    where = Where(root, namespace, cluster, node, archive)
    written = expired = 0
    with lines_of(file) as lines, where.open(accept_clock=accept_clock) as store:
        jobs = store.map(business)
        for batch in batches(read(lines, SYSTEM.wall_ms())):
            entries = [entry for entry in batch if entry is not None]
            expired += len(batch) - len(entries)
            if entries:
                put_all(jobs, entries)
            written += len(entries)
    if json:
        show.json_line({"imported": written, "expired": expired})
    else:
        show.say(f"{written:,} entries were put" + (f", {expired:,} had expired." if expired else "."))
    where.check_archived(store)


def lines_of(file: Path | None) -> Any:
    """The lines of an export, as bytes."""
    try:
        return open(file, "rb") if file is not None else open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read ({error.strerror}).", hint="Name what `kvwal export` printed."
        ) from error


def read(lines: Iterable[bytes], now_ms: int) -> Iterator[Entry | None]:
    """The entries of an export; None for one that has expired. `ConfigError` names the line that is none."""
    for number, text in enumerate(lines, 1):
        try:
            found = _decode(text)
            key, value = data_of(found.key, found.key_encoding), data_of(found.value, found.value_encoding)
            decoded(key, found.key_class)
            decoded(value, found.value_class)
        except (msgspec.DecodeError, binascii.Error, CodecError, ValueError) as error:
            raise ConfigError(
                f"line {number} is no line of an export: {str(error).rstrip('.')}.",
                hint="What stands in whole transactions before it is put; mend the line, and run it again.",
            ) from error
        ended = 0 < found.expires_ms <= now_ms
        yield None if ended else make_entry(key, found.key_class, value, found.value_class, False, 0, found.expires_ms)


def data_of(text: str, encoding: Encoding) -> bytes:
    """The stored bytes of a key or value."""
    return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()


def batches(entries: Iterable[Entry | None]) -> Iterator[list[Entry | None]]:
    """Entries in groups that one transaction holds easily."""
    batch: list[Entry | None] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.key) + len(entry.value) if entry is not None else 0
        if len(batch) >= AT_ONCE or size >= BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def put_all(jobs: kvwal.Map, entries: list[Entry]) -> None:
    """Put entries as they are, in one transaction."""
    future: CommitFuture[int] = CommitFuture()
    jobs._business.submit(jobs._changes.submission(entries, future, None, True), waits=True)
    future.result()
