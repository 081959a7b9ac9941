"""The records of one application, for a comparison of two ways in which they were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvwal.spark.index import is_application_key

POSITIONS = ("/log", "/recorder")


def application_records(records: Mapping[str, Any], app: str) -> dict[str, Any]:
    """The records of an application, without the positions of its readers."""
    return {
        key: value
        for key, value in records.items()
        if key.startswith(f"{app}/") and is_application_key(key) and not key.endswith(POSITIONS)
    }
