"""Limit of repeated log lines: a service that meets the same trouble a thousand times a second writes ten lines, and a count."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO

from kvwal.ports.clock import SYSTEM

MOST = 10
"""Lines of one kind that are written in a window. RepeatedLines.java has the same numbers."""
WINDOW_SECONDS = 60.0
_VARYING = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")


class LineKind(NamedTuple):
    """Lines that count as the same: of one logger and level, with texts that differ in numbers only."""

    logger: str
    level: int
    text: str


class _Window:
    """One kind of lines, from its first line on."""

    def __init__(self, begun: float, text: str) -> None:
        self.begun = begun
        self.text = text
        self.written = 0
        self.left_out = 0


class RepeatedLines:
    """The count of each kind of lines in its current window. Not for several threads at once."""

    def __init__(self) -> None:
        self._windows: dict[LineKind, _Window] = {}

    def may_write(self, logger: str, level: int, text: str, now: float) -> bool:
        """Whether a line is to be written at this time, in seconds; else it is counted."""
        kind = LineKind(logger, level, _VARYING.sub("#", text))
        window = self._windows.setdefault(kind, _Window(now, text))
        if window.written < MOST:
            window.written += 1
            return True
        window.left_out += 1
        return False

    def ended(self, now: float) -> Iterator[tuple[LineKind, int, str]]:
        """Forget the windows that have ended; of those that left lines out: the kind, how many, and the first line."""
        gone = [kind for kind, window in self._windows.items() if now - window.begun >= WINDOW_SECONDS]
        for kind in gone:
            window = self._windows.pop(kind)
            if window.left_out:
                yield kind, window.left_out, window.text


class LimitedHandler(logging.StreamHandler[TextIO]):
    """A stream handler that writes warnings and errors of one kind `MOST` times a minute.

    It tells how many lines it left out before the next line of any kind, and when it is closed."""

    def __init__(self, stream: TextIO, elapsed: Callable[[], float] = SYSTEM.elapsed) -> None:
        super().__init__(stream)
        self._elapsed = elapsed
        self._repeats = RepeatedLines()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it. The handler is locked meanwhile."""
        now = self._elapsed()
        self._tell_left_out(now)
        if record.levelno < logging.WARNING or self._repeats.may_write(
            record.name, record.levelno, _event(record), now
        ):
            super().emit(record)

    def close(self) -> None:
        """Tell how many lines were left out, and close."""
        self.acquire()
        try:
            self._tell_left_out(float("inf"))
        finally:
            self.release()
        super().close()

    def _tell_left_out(self, now: float) -> None:
        for kind, count, text in self._repeats.ended(now):
            fields = {"event": f"{count} lines like an earlier one were left out", "line": text, "left_out": count}
            line = f"{fields['event']}: {text}"
            record = logging.LogRecord(kind.logger, kind.level, "", 0, line, None, None)
            record.kvwal = fields
            super().emit(record)


def _event(record: logging.LogRecord) -> str:
    """The sentence of a record, without its fields."""
    fields = getattr(record, "kvwal", None)
    return str(fields["event"]) if isinstance(fields, dict) else record.getMessage()
