"""Spark and kvwal: metadata of Spark jobs, recorded in a store, and stores as data sources of Spark (`register`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvwal.spark.archive_restore import restore as restore
    from kvwal.spark.datasource.source import register as register
    from kvwal.spark.eventlog.record_logs import record_event_logs as record_event_logs
    from kvwal.spark.recording.recorder import JobRecorder as JobRecorder
    from kvwal.spark.recording.recorder import record as record
    from kvwal.spark.tables.arrow import table as table

_MODULES = {
    "JobRecorder": "recording.recorder",
    "record": "recording.recorder",
    "record_event_logs": "eventlog.record_logs",
    "register": "datasource.source",
    "restore": "archive_restore",
    "table": "tables.arrow",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
