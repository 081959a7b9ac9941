"""Pages of queues and of contents."""

from __future__ import annotations

from itertools import islice
from typing import Any

from kvwal.console.ownapi.contents import page_of, stored
from kvwal.console.ownapi.queues import items_of, listed
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Pager, Row, Table
from kvwal.console.pages.texts import amount, count
from kvwal.console.shared_reader import View
from kvwal.console.storepages import places
from kvwal.console.storepages.frame import Asked
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.sql.text import label
from kvwal.store.contents.stored import names_of_stored
from kvwal.structures.queue.positions import position_of, priority_of

_ROWS = 50


def queues_page(view: View, asked: Asked) -> Shown:
    """The queues of a business that hold items."""
    name = asked.path["business"]
    rows = [
        Row(
            {
                "queue": queue["queue"] or name, "items": queue["items"], "bytes": queue["bytes"],
                "oldest": None if queue["oldest_seconds"] is None else 1000 * queue["oldest_seconds"],
                "priorities": ", ".join(f"{priority}: {count(items)}" for priority, items in queue["by_priority"].items()),
            },
            {"queue": places.part(name, "queue", queue=queue["queue"])},
        )
        for queue in listed(view, name)
    ]  # fmt: skip
    columns = [
        Column("queue", "Queue"), Column("items", "Items", "count"), Column("bytes", "Size", "size"),
        Column("oldest", "Age of the oldest", "duration"), Column("priorities", "Items by priority", wide=True),
    ]  # fmt: skip
    table = Table("queues", "Queues", columns, rows, "No queue of this business holds an item.")
    values = {
        "title": f"Queues of {name}",
        "business": name,
        "tab": "queues",
        "command": asked.command("queue list", name),
    }
    return Shown("store_structures.html", {**values, "others": [], "prefix": None}, [table])


def queue_page(view: View, asked: Asked) -> Shown:
    """The first items of a queue. They stay in it."""
    name, queue = asked.path["business"], asked.text("queue")
    most = asked.number("limit", _ROWS, 1, 1000)
    items = list(islice(items_of(view.reader.read_business(name), queue), most + 1))
    rows = [
        Row({
            "priority": priority_of(item.key), "put": item.timestamp >> TIMESTAMP_SHIFT,
            "value": label(item.value, item.value_class), "position": str(position_of(item.key)),
        })
        for item in items[:most]
    ]  # fmt: skip
    columns = [
        Column("priority", "Priority", "count"), Column("put", "Put", "moment"), Column("value", "Value"),
        Column("position", "Position", "code", wide=True),
    ]  # fmt: skip
    more = asked.link({"limit": min(1000, 4 * most)}) if len(items) > most and most < 1000 else ""
    place = f"the first {count(len(rows))}" if more else amount(len(rows), "item")
    pager = Pager(place, "", more, after_words="show more")
    table = Table("items", "Items", columns, rows, "The queue holds no item.", pager)
    typed = f"{name}/{queue}" if queue else name
    values: dict[str, Any] = {
        "title": f"Queue {typed}", "business": name, "tab": "queues", "others": [], "prefix": None,
        "command": asked.command("queue browse", typed, "-n", str(most)),
    }  # fmt: skip
    return Shown("store_structures.html", values, [table])


def contents_page(view: View, asked: Asked) -> Shown:
    """A page of the contents of a business, by prefix, now or at a time."""
    name, contents, prefix, at = asked.path["business"], asked.text("contents"), asked.text("prefix"), asked.text("at")
    typed = f"{name}/{contents}" if contents else name
    found, following = page_of(stored(view, name, contents, asked.at), prefix, asked.text("cursor") or None, _ROWS)
    rows = [
        Row(
            {
                "name": each.name, "bytes": each.length, "changed": each.timestamp >> TIMESTAMP_SHIFT,
                "attributes": ", ".join(f"{key}={value}" for key, value in each.attributes.items()), "sha256": each.sha256,
            },
            {"name": places.content_bytes(name, contents, each.name, at)},
        )
        for each in found
    ]  # fmt: skip
    columns = [
        Column("name", "Name"), Column("bytes", "Size", "size"), Column("changed", "Last change", "moment"),
        Column("attributes", "Attributes", wide=True), Column("sha256", "SHA-256", "id", wide=True),
    ]  # fmt: skip
    after = asked.link({"cursor": following}) if following is not None else ""
    before = asked.link({"cursor": None}) if asked.text("cursor") else ""
    table = Table("contents", "Contents", columns, rows, "No content begins so." if prefix else f"{typed} has no content.",
                  Pager(amount(len(rows), "content"), before, after, "← first page"))  # fmt: skip
    words = (typed, *(("--prefix", prefix) if prefix else ()), *asked.at_words())
    others = [(each or name, asked.link({"contents": each or None, "cursor": None}), each == contents)
              for each in names_of_stored(view.reader.read_business(name))]  # fmt: skip
    values = {
        "title": f"Contents of {typed}", "business": name, "tab": "contents", "others": others, "prefix": prefix,
        "command": asked.command("content list", *words),
    }  # fmt: skip
    return Shown("store_structures.html", values, [table])
