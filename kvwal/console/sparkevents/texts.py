"""Texts of events without their secrets, each kept once: the stages of an application say the same again and again."""

from __future__ import annotations

import msgspec

from kvwal.spark.redaction import redacted


class Texts:
    """The texts of one application."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def shown(self, text: str) -> str:
        """A text without its secrets, by the rules of the application whose log is read."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = redacted(text)
        return known

    def known(self, text: str | None) -> str | msgspec.UnsetType:
        """A text that may be missing."""
        return msgspec.UNSET if text is None else self.shown(text)
