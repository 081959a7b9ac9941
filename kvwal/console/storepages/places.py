"""Addresses of the pages about the store. A key is named by its class and its bytes, so any key has an address."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from kvwal.console.ownapi.entries import Identity, cursor_text
from kvwal.console.ownapi.operations import PREFIX


def _with(path: str, **parameters: Any) -> str:
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def business(name: str, **parameters: Any) -> str:
    """The page of the keys of a business."""
    return _with(f"/store/{quote(name, safe='')}", **parameters)


def part(name: str, what: str, **parameters: Any) -> str:
    """Another page of a business: `queues`, `queue`, `contents`."""
    return _with(f"/store/{quote(name, safe='')}/{what}", **parameters)


def key(name: str, identity: Identity, **parameters: Any) -> str:
    """The page of one key."""
    return part(name, "key", id=cursor_text(identity), **parameters)


def sql(statement: str = "", **parameters: Any) -> str:
    """The page of SQL."""
    return _with("/store/sql", sql=statement, **parameters)


def lineage(dataset: str, **parameters: Any) -> str:
    """The page of the lineage of a data set."""
    return _with("/lineage", dataset=dataset, **parameters)


def content_bytes(name: str, contents: str, content: str, at: str | None) -> str:
    """Where the bytes of a content are downloaded."""
    return _with(
        f"{PREFIX}/businesses/{quote(name, safe='')}/content/bytes", contents=contents or None, name=content, at=at
    )


def select_all(name: str) -> str:
    """SQL that reads a business."""
    doubled = name.replace('"', '""')
    return f'SELECT * FROM "{doubled}" LIMIT 100'
