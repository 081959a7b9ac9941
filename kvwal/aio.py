"""Asynchronous interface: `async with kvwal.aio.open("data") as store: await store.map("jobs").put(k, v)`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kvwal.store.aio.business import Business
from kvwal.store.aio.content import Contents
from kvwal.store.aio.map import Map, Transaction
from kvwal.store.aio.queue import Queue
from kvwal.store.aio.store import Store
from kvwal.store.aio.store import open_store as open

__all__ = ["Business", "Contents", "Map", "Queue", "Store", "Transaction", "connect", "open"]

connect: Callable[..., Any]
"""`kvwal.client.aio.connect`, imported on first use, because it needs a package of the extra `cluster`."""


def __getattr__(name: str) -> Any:
    if name != "connect":
        raise AttributeError(f"module 'kvwal.aio' has no attribute {name!r}")
    return import_module("kvwal.client.aio").connect
