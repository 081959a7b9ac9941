"""Findings about the location, which everyone who looks within some seconds shares: an examination reads every log's ends."""

from __future__ import annotations

from collections.abc import Callable

from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock
from kvwal.scrub.diagnose import Finding

FRESH_SECONDS = 4.0
"""Age up to which findings are shown again: a page that is watched asks for them every five seconds."""


class Findings:
    """The findings of an examination. Called on workers; while one examines, the others wait for its findings."""

    def __init__(self, examine: Callable[[], list[Finding]], clock: Clock) -> None:
        self._examine = examine
        self._clock = clock
        self._lock = Lock()
        self._found: tuple[float, list[Finding]] | None = None

    def __call__(self) -> list[Finding]:
        """The findings. An error of the examination is raised, and not kept."""
        with self._lock:
            now = self._clock.elapsed()
            if self._found is None or now - self._found[0] > FRESH_SECONDS:
                self._found = now, self._examine()
            return self._found[1]
