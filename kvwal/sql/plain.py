"""Values of DuckDB in a form that JSON and CSV can hold."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kvwal.hlc import datetime_text
from kvwal.sql.text import finite, label


def plain(value: Any) -> Any:
    """A value of DuckDB in a form that JSON and CSV can hold. A large integer becomes text, because JSON readers round it."""
    if isinstance(value, bytes):
        return label(value, "bytes")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        return str(value)
    if isinstance(value, datetime) and value.tzinfo:
        return datetime_text(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return finite(value) if value is None or isinstance(value, bool | int | float | str) else str(value)
