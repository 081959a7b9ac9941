"""Commands on entries: put, get, delete, history, scan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.options import (
    ALL,
    AcceptClock,
    AnyNamespace,
    Archive,
    Business,
    Cluster,
    Json,
    Key,
    KeyClass,
    Namespace,
    Node,
    Root,
    Where,
)
from kvwal.cli.show import Format
from kvwal.cli.text import as_json, check_text, label, parse_key, parse_value, shown
from kvwal.entry import DataEntry
from kvwal.hlc import to_text

ABSENT = 1
"""Exit code of a `get` that found nothing."""


def put(
    root: Root,
    business: Business,
    key: Key,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="JSON where it is JSON, else text.", show_default=False)
    ],
    ttl: Annotated[float | None, typer.Option(help="Seconds after which the entry counts as absent.")] = None,
    key_class: KeyClass = "str",
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put a value, and print its timestamp once it is durable."""
    where = Where(root, namespace, cluster, node, archive)
    with where.open(accept_clock=accept_clock) as store:
        timestamp = store.map(business).put(parse_key(key, key_class), parse_value(value), ttl=ttl)
    show_timestamp(timestamp, json)
    where.check_archived(store)


def delete(
    root: Root,
    business: Business,
    key: Key,
    key_class: KeyClass = "str",
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Delete a key, and print the timestamp once that is durable. Its history stays."""
    where = Where(root, namespace, cluster, node, archive)
    where._replace(node=None).logs(business)
    with where.open(accept_clock=accept_clock) as store:
        timestamp = store.map(business).delete(parse_key(key, key_class))
    show_timestamp(timestamp, json)
    where.check_archived(store)


def show_timestamp(timestamp: int, json: bool) -> None:
    """What a write answers."""
    if json:
        show.json_line({"timestamp": str(timestamp), "time": to_text(timestamp)})
    else:
        show.say(to_text(timestamp))


def get(
    root: Root,
    business: Business,
    key: Key,
    key_class: KeyClass = "str",
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Print the value of a key: text as it is, anything else as JSON. Exit code 1 if the key is absent."""
    with Where(root, namespace, cluster, node, archive).reader() as store:
        entry = store.find(business, parse_key(key, key_class))
    if entry is None:
        show.note(f"kvwal: {business} has no {key!r}.")
        raise typer.Exit(ABSENT)
    if json:
        show.json_line(as_json(entry))
    else:
        show.write(shown(entry.value, entry.value_class))


def history(
    root: Root,
    business: Business,
    key: Key,
    key_class: KeyClass = "str",
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Print every change of a key that log and archive hold, newest first. Exit code 1 if there is none."""
    with Where(root, namespace, cluster, node, archive).reader() as store:
        entries = store.history(business, parse_key(key, key_class))
    if not entries:
        show.note(f"kvwal: {business} never had {key!r}.")
        raise typer.Exit(ABSENT)
    if json:
        for entry in entries:
            show.json_line(as_json(entry))
        return
    lines = [(to_text(e.timestamp), "delete" if e.deleted else "put", label(e.value, e.value_class)) for e in entries]
    show.table(["time", "change", "value"], lines)


def scan(
    root: Root,
    business: Business,
    prefix: Annotated[str, typer.Option(help="Only keys that begin with this text.")] = "",
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Print keys and values in the order of the keys."""
    where = Where(root, namespace, cluster, node, archive)
    form = Format.json if json else format
    found = scanned(where, business, check_text("--prefix", prefix))
    every = namespace == ALL
    if form is Format.json:
        show.json_lines(json_of(entry, of if every else None) for of, entry in found)
        return
    names = ["namespace", "key", "value"] if every else ["key", "value"]
    labels = ((of, label(e.key, e.key_class), label(e.value, e.value_class)) for of, e in found)
    show.rows(names, (row[-len(names) :] for row in labels), form)


def scanned(where: Where, business: str, prefix: str) -> Iterator[tuple[str, DataEntry]]:
    """Each entry with its namespace; without a prefix keys of every class, with one only text."""
    for namespace in where.namespaces(business):
        with where._replace(namespace=namespace).open(read_only=True) as store:
            for entry in store.map(business).entries(prefix or None):
                yield namespace, entry


def json_of(entry: DataEntry, namespace: str | None) -> dict[str, Any]:
    """Key and value, with a word where one is bytes and its text base64."""
    told = as_json(entry)
    names = ("key_encoding", "key", "value_encoding", "value")
    return ({} if namespace is None else {"namespace": namespace}) | {
        name: told[name] for name in names if name in told
    }
