"""The logging port: structured lines for the standard library's loggers, which belong to the program that uses kvwal.

A line is a record of `logging.getLogger("kvwal.…")`: its message is a sentence and its fields, `record.kvwal` has them as a
dict, with the sentence as `event`. kvwal adds no handler and configures nothing, neither `logging` nor structlog: what is
shown, and where, is the program's to say. A program that says nothing sees warnings on standard error, as Python has it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog

Logger = structlog.stdlib.BoundLogger

_FRAMES = 4
"""Calls of structlog between the line that logs and the standard library, which names that line in the record."""


def get_logger(name: str) -> Logger:
    """The logger of a module, `get_logger(__name__)`: `bind` gives one that adds fields."""
    logger: Logger = structlog.wrap_logger(
        logging.getLogger(name), processors=[structlog.stdlib.filter_by_level, _to_record], wrapper_class=Logger,
        context_class=dict, cache_logger_on_first_use=False,
    )  # fmt: skip
    return logger


def _to_record(logger: Any, method: str, fields: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    trace = fields.pop("exc_info", None)
    told = " ".join(f"{name}={value!r}" for name, value in fields.items() if name != "event")
    text = f"{fields['event']} {told}" if told else str(fields["event"])
    return (text,), {"extra": {"kvwal": dict(fields)}, "exc_info": trace, "stacklevel": _FRAMES}


_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Characters that steer a terminal, or that some readers take for the end of a line, as JSON writes them."""


class JsonLines(logging.Formatter):
    """One JSON object a line: `event`, the fields, `logger`, `level`, `timestamp`, and `exception` where there is a trace."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = getattr(record, "kvwal", None)
        line = dict(fields) if isinstance(fields, dict) else {"event": record.getMessage()}
        line |= {"logger": record.name, "level": record.levelname.lower()}
        line["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False).translate(_ESCAPED)


def log_to(stream: TextIO, formatter: logging.Formatter, *, level: int, own_level: int) -> None:
    """For a program of kvwal's own: all loggers write to the stream, kvwal's from `own_level`, those of others from `level`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("kvwal").setLevel(own_level)
