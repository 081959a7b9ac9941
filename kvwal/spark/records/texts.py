"""Texts of the records: without secrets, and bounded."""

from __future__ import annotations

import re

from kvwal.spark.redaction import redacted

MAX_MESSAGE = 4_000
MAX_STACK = 8_000
MAX_PLAN = 60_000
MAX_TEXT = 1_000
MAX_READ = 1_000_000
"""Characters of a text that are redacted and may be stored. The rest is ignored."""
_CUT = " … cut … "
_RAISED = re.compile(r"^[ \t]*[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*", re.MULTILINE)


def cut(text: str | None, limit: int = MAX_TEXT) -> str:
    """`text` without its secrets, cut to `limit` characters: two thirds from its head and the rest from its tail, since the cause
    of an error usually stands at one end. Text beyond `MAX_READ` characters is ignored, so the tail of a longer text ends there.
    """
    if not text:
        return ""
    text = redacted(text[:MAX_READ])
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return text[:head] + _CUT + text[len(text) - (limit - head - len(_CUT)) :]


def gist(message: str) -> str:
    """The line of an error's message that names the error: the first line, or the last error of a Python traceback."""
    raised = _RAISED.findall(message) if "Traceback (most recent call last)" in message else []
    return raised[-1].strip() if raised else message.partition("\n")[0]
