"""The command line of a follower, for tests that start one as a process."""

from __future__ import annotations

import sys
from pathlib import Path


def follow_command(location: object, *words: object, every: float = 0.2) -> list[str]:
    """`kvwal record LOCATION WORD… --follow`, with `every` seconds between two rounds."""
    program = str(Path(sys.executable).with_name("kvwal"))
    return [program, "record", str(location), *map(str, words), "--follow", "--every", str(every)]
