"""Asynchronous API: `async with kvwal.aio.open("data") as store: await store.map("jobs").put(k, v)`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kvwal.store.asynchronous import Map, Store, Transaction
from kvwal.store.asynchronous import open_store as open

__all__ = ["Map", "Store", "Transaction", "connect", "open"]

connect: Callable[..., Any]
"""`kvwal.client.aio.connect`, imported at its first use, because the package that it needs is optional."""


def __getattr__(name: str) -> Any:
    if name != "connect":
        raise AttributeError(f"module 'kvwal.aio' has no attribute {name!r}")
    return import_module("kvwal.client.aio").connect
