"""The next examination of a console's location, in the background."""

from __future__ import annotations

from kvwal.console.parts import Console
from kvwal.ports.boundary import logged, start_task

_not_renewed = logged("the location could not be examined again; the console shows the earlier findings")


def renew(console: Console) -> None:
    """Begin an examination if somebody has just looked at one that is old. On the event loop."""
    if console.figures.examinations.begin_renewal():
        start_task(console.workers.run(console.figures.examinations.renewed), _not_renewed)
