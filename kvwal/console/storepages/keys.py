"""Pages of businesses, of the keys of a map, and of one key with its history."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from kvwal.console.bodies import Refused
from kvwal.console.ownapi.entries import cursor_text, parse_cursor, prefix_bounds, read_page, reader_at
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Pager, Row, Table
from kvwal.console.pages.texts import amount, code, moment
from kvwal.console.shared_reader import View
from kvwal.console.storepages import places
from kvwal.console.storepages.frame import Asked
from kvwal.console.storepages.values import difference, key_text, shown_text, value_label
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry
from kvwal.sql.text import decoded_key

_ROWS = 50
_MOST_VERSIONS = 200


def businesses_page(view: View, asked: Asked) -> Shown:
    """The businesses, and a box for SQL."""
    rows = [
        Row(
            {"business": name, "bytes": size, "queues": "queues", "contents": "contents", "sql": "SQL"},
            {
                "business": places.business(name), "queues": places.part(name, "queues"),
                "contents": places.part(name, "contents"), "sql": places.sql(places.select_all(name)),
            },
        )
        for name, size in view.reader.sizes().items()
    ]  # fmt: skip
    columns = [
        Column("business", "Business"), Column("bytes", "Size", "size"), Column("queues", "Queues", "plain"),
        Column("contents", "Contents", "plain"), Column("sql", "Query", "plain"),
    ]  # fmt: skip
    table = Table("businesses", "Businesses", columns, rows, "There is no business here yet.")
    first = rows[0].values["business"] if rows else ""
    values = {
        "title": "Store",
        "command": asked.command("maps"),
        "statement": places.select_all(first) if first else "SELECT 1",
    }
    return Shown("store.html", values, [table])


def keys_page(view: View, asked: Asked) -> Shown:
    """A page of the keys of a map, by prefix, now or at a time."""
    name, prefix, cursor = asked.path["business"], asked.text("prefix"), asked.text("cursor")
    business = reader_at(view, asked.at).read_business(name)
    found, last = read_page(business, prefix_bounds(prefix), parse_cursor(cursor or None), _ROWS)
    at = asked.text("at") or None
    rows = [
        Row(
            {"key": key_text(entry), "class": entry.key_class, "value": value_label(entry), "changed": _ms(entry)},
            {"key": places.key(name, (entry.key_class, entry.key), at=at)},
        )
        for entry in found
    ]
    columns = [
        Column("key", "Key", "key"), Column("value", "Value", "value"), Column("class", "Key type", "plain", wide=True),
        Column("changed", "Last change", "moment", wide=True),
    ]  # fmt: skip
    following = asked.link({"cursor": cursor_text(last)}) if last is not None else ""
    pager = Pager(amount(len(rows), "key"), asked.link({"cursor": None}) if cursor else "", following, "← first page")
    empty = (
        "No key begins so."
        if prefix
        else "The map has no key. A business may have queues and contents instead: see there."
    )
    table = Table("keys", "Keys", columns, rows, empty, pager)
    words = (name, *(("--prefix", prefix) if prefix else ()), *asked.at_words(), "--limit", str(_ROWS))
    values = {
        "title": name, "command": asked.command("scan", *words), "business": name, "tab": "keys", "prefix": prefix,
        "at": at or "", "following": following, "back": bool(cursor), "statement": places.sql(places.select_all(name)),
    }  # fmt: skip
    return Shown("store_keys.html", values, [table])


def key_page(view: View, asked: Asked) -> Shown:
    """One key: a version of it, what that version changed, and all versions that log and archive hold."""
    name = asked.path["business"]
    try:
        identity = parse_cursor(asked.text("id"))
    except Refused as error:
        raise Refused(400, f"id={asked.text('id')[:40]!r} names no key: choose it in the list of keys.") from error
    if identity is None:
        raise Refused(400, "The key is missing: choose it in the list of keys.")
    history = view.reader.read_business(name).history(*identity)[:_MOST_VERSIONS]
    if not history:
        raise Refused(404, f"{name} never had such a key, or its history is not kept any more.")
    at = asked.at
    then = next((index for index, entry in enumerate(history) if at is None or entry.timestamp <= at), len(history))
    if then == len(history):
        raise Refused(404, f"{name} had no such key at {asked.text('at')}: the first change that is kept is later.")
    # The slider goes from the oldest version to the newest, as time does.
    version = asked.number("version", len(history) - then, 1, len(history))
    index = len(history) - version
    entry, before = history[index], history[index + 1] if index + 1 < len(history) else None
    text, whole = shown_text(entry)
    rows = [
        Row(
            {
                "version": len(history) - number, "time": _ms(each), "change": "delete" if each.deleted else "put",
                "value": value_label(each), "timestamp": str(each.timestamp),
            },
            {"version": asked.link({"version": len(history) - number, "at": None})},
            mark="shown" if number == index else "",
        )
        for number, each in enumerate(history)
    ]  # fmt: skip
    columns = [
        Column("version", "Version", "plain"), Column("time", "Time", "moment"), Column("change", "Change", "plain"),
        Column("value", "Value", "value"), Column("timestamp", "Timestamp", "code", wide=True),
    ]  # fmt: skip
    table = Table("history", "History", columns, rows)
    facts = [
        ("Changed", moment(_ms(entry))), ("Size", amount(len(entry.value), "byte")), ("Key type", entry.key_class),
        ("Value type", entry.value_class or "deleted"),
    ]  # fmt: skip
    if entry.expires:
        facts.append(("Expires", moment(entry.expires)))
    values: dict[str, Any] = {
        "title": code(key_text(entry)), "shown_at": moment(_ms(entry)),
        "business": name, "tab": "keys", "id": asked.text("id"), "facts": facts, "text": text,
        "whole": whole, "deleted": entry.deleted, "version": version, "versions": len(history),
        "lines": difference(before, entry), "first": before is None, "is_newest": index == 0,
        "command": _command(asked, "history" if index else "get", name, entry),
        "api": f"/api/kvwal/v1/businesses/{quote(name, safe='')}/history?{_in_api(entry)}",
    }  # fmt: skip
    return Shown("store_key.html", values, [table])


def _ms(entry: DataEntry) -> int:
    return entry.timestamp >> TIMESTAMP_SHIFT


def _command(asked: Asked, verb: str, name: str, entry: DataEntry) -> str:
    """The command that reads a key, as bash takes it; nothing for bytes with a zero, which no command line can hold."""
    if entry.key_class == "bytes":
        escaped = "".join(f"\\x{byte:02x}" for byte in entry.key)
        return "" if b"\0" in entry.key else f"{asked.command(verb, name, '--key-class', 'bytes')} $'{escaped}'"
    typed = key_text(entry) if entry.key else ""
    words = () if entry.key_class == "str" else ("--key-class", entry.key_class)
    return asked.command(verb, name, *words, *(("--",) if typed.startswith("-") else ()), typed)


def _in_api(entry: DataEntry) -> str:
    """The parameters of a key in the API."""
    content = decoded_key(entry.key, entry.key_class)
    typed = content if isinstance(content, bytes | str) else key_text(entry)
    return f"key={quote(typed, safe='')}&key_class={entry.key_class}"
