"""Logging port: structured log lines for the standard library's loggers, which the program that uses kvwal configures.

A line is a record of `logging.getLogger("kvwal.…")`. Its message is a sentence with the fields after it; `record.kvwal` has the
fields as a dict, with the sentence as `event`. kvwal adds no handler and configures neither `logging` nor structlog. In a program
that configures nothing, Python shows warnings on standard error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import structlog

    Logger = structlog.stdlib.BoundLogger

_FRAMES = 4
"""Stack frames of structlog between the line that logs and the standard library, so that the record names that line."""


def get_logger(name: str) -> Logger:
    """The logger of a module: `get_logger(__name__)`. Its `bind` returns a logger that adds fields."""
    import structlog  # late: it takes 0.04 s, and a command that only reads logs nothing

    logger: Logger = structlog.wrap_logger(
        logging.getLogger(name), processors=[structlog.stdlib.filter_by_level, _to_record],
        wrapper_class=structlog.stdlib.BoundLogger, context_class=dict, cache_logger_on_first_use=False,
    )  # fmt: skip
    return logger


def _to_record(logger: Any, method: str, fields: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    trace = fields.pop("exc_info", None)
    shown = " ".join(f"{name}={value!r}" for name, value in fields.items() if name != "event")
    text = f"{fields['event']} {shown}" if shown else str(fields["event"])
    return (text,), {"extra": {"kvwal": dict(fields)}, "exc_info": trace, "stacklevel": _FRAMES}


_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""JSON escapes of characters that control a terminal, or that some readers take for the end of a line."""


class JsonLines(logging.Formatter):
    """One JSON object for each line: `event`, the fields, `logger`, `level`, `timestamp`, and `exception` if there is a trace."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        fields = getattr(record, "kvwal", None)
        line = dict(fields) if isinstance(fields, dict) else {"event": record.getMessage()}
        line |= {"logger": record.name, "level": record.levelname.lower()}
        line["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False).translate(_ESCAPED)


def log_to(handler: logging.StreamHandler[TextIO], formatter: logging.Formatter, *, level: int, own_level: int) -> None:
    """Configure logging of kvwal's own programs: kvwal's loggers write to the handler from `own_level`, others from `level`."""
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("kvwal").setLevel(own_level)
