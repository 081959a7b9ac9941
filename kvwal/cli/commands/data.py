"""Commands on entries: put, get, delete, history, scan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection, WideStoreSelection
from kvwal.cli.options import (
    ALL,
    LEAST_DURATION,
    AcceptClock,
    At,
    Business,
    EntryKey,
    Json,
    Key,
    KeyClass,
    duration_parser,
    path_parser,
)
from kvwal.cli.show import Format
from kvwal.cli.tables import print_table
from kvwal.cli.text import as_json, check_text, key_label, label, moment_text, parse_key, parse_moment, shown
from kvwal.cli.transfer.ranges import KeyRangeOptions
from kvwal.cli.transfer.values import value_of
from kvwal.entry import DataEntry
from kvwal.hlc import to_text
from kvwal.key_text import TEXT_CLASSES

ABSENT = 1
"""Exit code of a `get` or `history` whose key is absent."""


def put(
    selection: StoreSelection,
    business: Business,
    key: Key,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE", help="JSON where it is JSON, else text; - for standard input.", show_default=False
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Take the value from this file.",
            show_default=False,
            parser=path_parser("file of --file", "file"),
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a value that is no JSON.")] = False,
    ttl: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            help="The entry counts as absent after this time: 90s, 15m, 1h, 7d, or seconds.",
            parser=duration_parser("--ttl", least=LEAST_DURATION),
        ),
    ] = None,
    key_class: KeyClass = "str",
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put a value, and print its timestamp once it is durable."""
    content = value_of(value, file, strict=strict)
    with selection.writer(begins=business, accept_clock=accept_clock) as store:
        timestamp = store.map(business).put(parse_key(key, key_class), content, ttl=ttl)
    show_timestamp(timestamp, json)
    selection.check_archived(store)


def delete(
    selection: StoreSelection,
    key: EntryKey,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Delete a key, and print the timestamp once that is durable. Its history stays."""
    with selection.writer(existing=key.business, accept_clock=accept_clock) as store:
        timestamp = store.map(key.business).delete(key.decoded())
    show_timestamp(timestamp, json)
    selection.check_archived(store)


def show_timestamp(timestamp: int, json: bool) -> None:
    """Print the timestamp of a write."""
    show.answer({"timestamp": str(timestamp), "time": to_text(timestamp)}, to_text(timestamp), json)


def get(selection: StoreSelection, key: EntryKey, at: At = None, json: Json = False) -> None:
    """Print the value of a key: text as it is, anything else as JSON. Exit code 1 if the key is absent."""
    with selection.reader(at) as store:
        entry = store.read_business(key.business, logged=json).find(*key.identity())
    if entry is None:
        then = "" if at is None else f" at {moment_text(parse_moment(at))}"
        show.note(f"kvwal: {key.business} {'had' if then else 'has'} no {key.key!r}{then}.")
        raise typer.Exit(ABSENT)
    if json:
        show.json_line(as_json(entry))
    else:
        show.write(shown(entry.value, entry.value_class))


def history(selection: StoreSelection, key: EntryKey, json: Json = False) -> None:
    """Print every change of a key that log and archive hold, newest first. Exit code 1 if there is none."""
    with selection.reader() as store:
        entries = store.read_business(key.business).history(*key.identity())
    if not entries:
        show.note(f"kvwal: {key.business} never had {key.key!r}.")
        raise typer.Exit(ABSENT)
    if json:
        for entry in entries:
            show.json_line(as_json(entry))
        return
    lines = [(to_text(e.timestamp), "delete" if e.deleted else "put", label(e.value, e.value_class)) for e in entries]
    print_table(["time", "change", "value"], lines)


def scan(
    selection: WideStoreSelection,
    business: Business,
    keys: KeyRangeOptions,
    prefix: Annotated[str, typer.Option(help="Only keys that begin with this text.")] = "",
    at: At = None,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    json: Json = False,
) -> None:
    """Print keys and values in the order of the keys."""
    form = Format.json if json else format
    entries = islice(scanned(selection, business, keys, check_text("--prefix", prefix), at), keys.limit)
    every = selection.namespace == ALL
    if form is Format.json:
        show.json_lines(json_of(entry, namespace if every else None) for namespace, entry in entries)
        return
    names = ["namespace", "key", "value"] if every else ["key", "value"]
    labels = ((namespace, key_label(e.key, e.key_class), label(e.value, e.value_class)) for namespace, e in entries)
    show.rows(names, (row[-len(names) :] for row in labels), form)


def scanned(
    selection: StoreSelection, business: str, keys: KeyRangeOptions, prefix: str, at: str | None
) -> Iterator[tuple[str, DataEntry]]:
    """Each entry with its namespace: keys of every class without a prefix, text keys only with a prefix."""
    for namespace in selection.namespaces(business):
        with replace(selection, namespace=namespace).reader(at) as store:
            for entry in keys.read(store.read_business(business), prefix):
                yield namespace, entry


def json_of(entry: DataEntry, namespace: str | None) -> dict[str, Any]:
    """Key and value of an entry for a program; `key_encoding` or `value_encoding` marks bytes as base64, and `key_class` a key
    that JSON has no form for.
    """
    fields = as_json(entry)
    names = ["key_encoding", "key", "value_encoding", "value"]
    if entry.key_class in TEXT_CLASSES:
        names.insert(2, "key_class")
    return ({} if namespace is None else {"namespace": namespace}) | {
        name: fields[name] for name in names if name in fields
    }
