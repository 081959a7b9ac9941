"""kvwal: an in-memory key-value store, durable by a write-ahead log, an archive in object storage, and a merge of both.

    import kvwal
    with kvwal.open("data") as store:
        jobs = store.map("jobs")
        jobs["job-1"] = {"state": "RUNNING"}      # returns when the entry is durable

A name is imported when it is first used, so that a command that only reads does not wait for unused modules to load.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvwal import aio, codecs, errors, spark
    from kvwal.config import Interval, Settings
    from kvwal.entry import DataEntry
    from kvwal.errors import (
        ArchiveDamaged,
        ArchiveError,
        ArchiveGap,
        BeforeHistory,
        ClockSkew,
        ClusterRefused,
        ClusterUnreachable,
        CodecError,
        CommitUnknown,
        ConfigError,
        ContentDamaged,
        ContentFailed,
        ContentGone,
        ContentMissing,
        CorruptLog,
        InvalidName,
        Kind,
        KvwalError,
        LogFailed,
        NewerVersion,
        NotRecovered,
        Overloaded,
        QueueFull,
        StartFailed,
        StorageFull,
        StoreClosed,
        StoreLocked,
        TooLarge,
        TransactionClosed,
        WrongLoop,
        WrongType,
    )
    from kvwal.history.restore.restore import RestoreReport, restore
    from kvwal.location.connect import connect
    from kvwal.store.sync import Store
    from kvwal.store.sync import open_store as open
    from kvwal.structures.content.content import Contents
    from kvwal.structures.map.changes import ABSENT
    from kvwal.structures.map.map import Map
    from kvwal.structures.queue.options import QueueOptions
    from kvwal.structures.queue.queue import Queue

    __version__: str

_MODULES = {
    "ABSENT": "kvwal.structures.map.changes:ABSENT",
    "Contents": "kvwal.structures.content.content:Contents",
    "DataEntry": "kvwal.entry:DataEntry",
    "Interval": "kvwal.config:Interval",
    "Map": "kvwal.structures.map.map:Map",
    "Queue": "kvwal.structures.queue.queue:Queue",
    "QueueOptions": "kvwal.structures.queue.options:QueueOptions",
    "RestoreReport": "kvwal.history.restore.restore:RestoreReport",
    "Settings": "kvwal.config:Settings",
    "Store": "kvwal.store.sync:Store",
    "aio": "kvwal.aio",
    "codecs": "kvwal.codecs",
    "connect": "kvwal.location.connect:connect",
    "errors": "kvwal.errors",
    "open": "kvwal.store.sync:open_store",
    "restore": "kvwal.history.restore.restore:restore",
    "spark": "kvwal.spark",
}

__all__ = [
    "ABSENT",
    "ArchiveDamaged",
    "ArchiveError",
    "ArchiveGap",
    "BeforeHistory",
    "ClockSkew",
    "ClusterRefused",
    "ClusterUnreachable",
    "CodecError",
    "CommitUnknown",
    "ConfigError",
    "ContentDamaged",
    "ContentFailed",
    "ContentGone",
    "ContentMissing",
    "Contents",
    "CorruptLog",
    "DataEntry",
    "Interval",
    "InvalidName",
    "Kind",
    "KvwalError",
    "LogFailed",
    "Map",
    "NewerVersion",
    "NotRecovered",
    "Overloaded",
    "Queue",
    "QueueFull",
    "QueueOptions",
    "RestoreReport",
    "Settings",
    "StartFailed",
    "StorageFull",
    "Store",
    "StoreClosed",
    "StoreLocked",
    "TooLarge",
    "TransactionClosed",
    "WrongLoop",
    "WrongType",
    "aio",
    "codecs",
    "connect",
    "errors",
    "open",
    "restore",
    "spark",
]


if not TYPE_CHECKING:  # mypy would accept any name as one of kvwal's

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name == "__version__":
            return import_module("importlib.metadata").version("kvwal")
        if name not in __all__:
            raise AttributeError(f"module 'kvwal' has no attribute {name!r}")
        module, _, attribute = _MODULES.get(name, f"kvwal.errors:{name}").partition(":")
        imported = import_module(module)
        globals()[name] = value = getattr(imported, attribute) if attribute else imported
        return value


def __dir__() -> list[str]:
    return __all__
