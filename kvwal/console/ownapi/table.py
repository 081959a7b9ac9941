"""The table of the operations of kvwal's REST API, from which its routes and its OpenAPI document are made."""

from __future__ import annotations

from typing import Any

from kvwal.console.ownapi import contents, entries, lineage, queues, shapes, sql, writes
from kvwal.console.ownapi.operations import (
    AT,
    BUSINESS,
    CURSOR,
    KEY,
    KEY_CLASS,
    LIMIT,
    Answer,
    Body,
    Operation,
    Parameter,
    choice,
    count,
    flag,
    text,
)
from kvwal.console.ownapi.watches import Watches

_KEY_PARAMETERS = (BUSINESS, KEY, KEY_CLASS)
_IF_MATCH = Parameter("If-Match", "The ETag that the key must have, or * for any.", {"type": "string"}, "header")
_IF_ABSENT = Parameter("If-None-Match", "*: the key must be absent.", {"type": "string"}, "header")
_IF_NEW = Parameter(
    "If-None-Match", "The ETag that the caller has: 304 if it is still right.", {"type": "string"}, "header"
)
_RANGE = Parameter("Range", "The bytes that are wanted: bytes=0-99, or bytes=-100.", {"type": "string"}, "header")
_IF_RANGE = Parameter("If-Range", "The ETag for which Range is meant.", {"type": "string"}, "header")
_LAST = Parameter(
    "Last-Event-ID", "The id of the last event: the stream goes on after it.", {"type": "string"}, "header"
)
_OF = text("of", "What has the key: queue, queue/NAME or map/NAME; without it the map itself.")
_DIRECTION = choice("direction", "Up: what it was made of; down: what was made of it.", ("up", "down", "both"), "both")
_DEPTH = count("depth", "The most steps; 0: however many.", 0, 1000, 0)
_DATASET = text("dataset", "The data set: s3://lake/mart/sales, a path, or a table.", required=True)
_CONTENTS = text("contents", "The name of the contents in the business; without it the business's own.")
_NAME = text("name", "The name of a content.", required=True)
_QUEUE = text("queue", "The name of the queue in the business; without it the business's own.")
_NOW = flag(
    "now", "Examine the location now; without it the last examination is told, and a new one begins if it is old."
)
_SQL_LIMITS = (
    AT,
    count("limit", "The most rows of the answer.", 10_000, sql.MOST_ROWS),
    count("seconds", "The statement is ended after these seconds.", 30, sql.MOST_SECONDS),
    choice(
        "form",
        "The form of the answer; arrow is what `Accept` of its media type asks for, too.",
        ("json", "arrow"),
        "json",
    ),
)
_SQL_ANSWERS = {200: Answer("The rows, as JSON or as a stream of Arrow.", shapes.Rows, (sql.ARROW,))}
_BYTES: dict[str, Any] = {"application/octet-stream": {}}
_VALUE = Body({"application/json": {}, "text/plain": {"type": "string"}, **_BYTES})
_WRITE_ERRORS = (400, 403, 404, 408, 412, 413, 415)
_IN = "/businesses/{business}"


def operations() -> tuple[Operation, ...]:
    """The operations of one console."""
    return (*_OF_KEYS, *_of_watches(Watches()), *_OF_SQL, *_OF_STRUCTURES, *_OF_LINEAGE, *_OF_HEALTH)


_OF_KEYS = (
    Operation(
        "GET", "/businesses", "List the businesses.", "keys", entries.businesses,
        {200: Answer("All of them.", shapes.Businesses)},
    ),
    Operation(
        "GET", f"{_IN}/keys", "List keys and values of a map, a page at a time.", "keys", entries.keys,
        {200: Answer("A page.", shapes.Page)},
        (BUSINESS, text("prefix", "Only text keys that begin with this text."), AT, LIMIT, CURSOR),
    ),
    Operation(
        "GET", f"{_IN}/key", "Read one key.", "keys", entries.key,
        {200: Answer("The entry.", shapes.Entry, headers=("ETag",)), 304: Answer("It is as the caller knows it.")},
        (*_KEY_PARAMETERS, AT, _IF_NEW),
    ),
    Operation(
        "PUT", f"{_IN}/key", "Put a value. It returns when the value is durable.", "keys", writes.put,
        {200: Answer("It is durable.", shapes.Written, headers=("ETag",))},
        (*_KEY_PARAMETERS, _IF_MATCH, _IF_ABSENT), _VALUE, _WRITE_ERRORS,
    ),
    Operation(
        "DELETE", f"{_IN}/key", "Delete a key. It returns when that is durable.", "keys", writes.delete,
        {200: Answer("It is durable.", shapes.Written)}, (*_KEY_PARAMETERS, _IF_MATCH, _IF_ABSENT), None, _WRITE_ERRORS,
    ),
    Operation(
        "GET", f"{_IN}/history", "Read the changes of one key, newest first.", "keys", entries.history,
        {200: Answer("The changes.", shapes.History)}, (*_KEY_PARAMETERS, LIMIT),
    ),
)  # fmt: skip


def _of_watches(watches: Watches) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET", f"{_IN}/watch", "Watch a map: each change is a server-sent event, deletes included.", "keys",
            watches.watch, {200: Answer("A stream that ends when the console stops.", media=("text/event-stream",))},
            (BUSINESS, text("after", "A time, or the id of an event; without it the stream begins now."), _LAST),
        ),
    )  # fmt: skip


_OF_SQL = (
    Operation(
        "GET", "/sql", "Run one statement that reads.", "SQL", sql.sql, _SQL_ANSWERS,
        (text("sql", "The statement, in DuckDB's SQL.", required=True, example="SELECT 1"), *_SQL_LIMITS), None,
        (400, 408, 413),
    ),
    Operation(
        "POST", "/sql", "Run one statement that reads, from the body.", "SQL", sql.sql_of_body, _SQL_ANSWERS,
        _SQL_LIMITS, Body({"application/sql": {"type": "string"}, "text/plain": {"type": "string"}}), (400, 408, 413, 415),
    ),
)  # fmt: skip
_OF_STRUCTURES = (
    Operation(
        "GET", "/queues", "List the queues that hold items.", "queues", queues.queues,
        {200: Answer("The queues.", shapes.Queues)}, (text("business", "Only those of this business."),),
    ),
    Operation(
        "GET", f"{_IN}/queue/stats", "Figures of one queue.", "queues", queues.stats,
        {200: Answer("The figures.", shapes.QueueStats)}, (BUSINESS, _QUEUE),
    ),
    Operation(
        "GET", f"{_IN}/queue/items", "Browse a queue. The items stay.", "queues", queues.browse,
        {200: Answer("The first items.", shapes.QueueItems)}, (BUSINESS, _QUEUE, LIMIT),
    ),
    Operation(
        "GET", f"{_IN}/contents", "List contents, a page at a time.", "contents", contents.contents,
        {200: Answer("A page.", shapes.Contents)},
        (BUSINESS, _CONTENTS, text("prefix", "Only names that begin with this text."), AT, LIMIT, CURSOR),
    ),
    Operation(
        "GET", f"{_IN}/content", "One content, without its bytes.", "contents", contents.stat,
        {200: Answer("The content.", shapes.Content, headers=("ETag",))}, (BUSINESS, _CONTENTS, _NAME, AT),
    ),
    Operation(
        "GET", f"{_IN}/content/bytes", "The bytes of a content, or a range of them, as a file to download.", "contents",
        contents.data,
        {
            200: Answer("All bytes.", media=tuple(_BYTES), headers=("ETag",)),
            206: Answer("The range.", media=tuple(_BYTES), headers=("ETag", "Content-Range")),
            304: Answer("They are as the caller knows them."),
        },
        (BUSINESS, _CONTENTS, _NAME, AT, _RANGE, _IF_RANGE, _IF_NEW), None, (404, 416),
    ),
)  # fmt: skip
_OF_LINEAGE = (
    Operation(
        "GET", f"{_IN}/provenance", "Search the events of a business, newest first.", "lineage", lineage.search,
        {200: Answer("The events.", shapes.Events)},
        (
            BUSINESS, text("key", "The key of the item."), KEY_CLASS, _OF, text("type", "The type: create, route, drop …"),
            text("component", "Who made the change."), text("text", "Words that all occur in keys, values or details."),
            text("after", "From this time on."), text("before", "Up to this time."), LIMIT,
        ),
    ),
    Operation(
        "GET", f"{_IN}/provenance/lineage", "The events that made an item, and those of what was made of it.", "lineage",
        lineage.item_lineage, {200: Answer("The events, oldest first.", shapes.Events)},
        (*_KEY_PARAMETERS, _OF, _DIRECTION, _DEPTH),
    ),
    Operation(
        "GET", "/lineage", "Where the data of a data set come from, and where they go.", "lineage", lineage.dataset,
        {200: Answer("What `kvwal lineage --json` prints.", shapes.Lineage)}, (_DATASET, _DIRECTION, _DEPTH, AT),
    ),
    Operation(
        "GET", "/datasets", "Search data sets.", "lineage", lineage.datasets, {200: Answer("Data sets.", shapes.Datasets)},
        (text("text", "Text of the name; without it, all."), AT, LIMIT),
    ),
)  # fmt: skip
_OF_HEALTH = (
    Operation(
        "GET",
        "/health",
        "What `kvwal doctor` says.",
        "health",
        entries.health,
        {200: Answer("The findings.", shapes.Health)},
        (_NOW,),
    ),
    Operation(
        "GET",
        "/operations",
        "The nodes with their phases, latency and errors; logs and archive with sizes and lag; what `kvwal doctor` says.",
        "health",
        entries.operations,
        {200: Answer("The figures.", shapes.Operations)},
        (_NOW,),
    ),
    Operation(
        "GET",
        "/stats",
        "What `kvwal stats` says.",
        "health",
        entries.stats,
        {200: Answer("The figures.", shapes.Stats)},
    ),
)
