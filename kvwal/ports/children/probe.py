"""A question to another Python: whether it can import a module as it would be started."""

from __future__ import annotations

import subprocess


def why_not(python: str, module: str) -> str | None:
    """Why `python` cannot import `module`: the last line that it prints, or the system's reason. None if it can."""
    try:
        ran = subprocess.run(
            [python, "-c", f"import {module}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return error.strerror or str(error)
    said = ran.stderr.strip().splitlines() or [f"it ended with {ran.returncode}"]
    return said[-1] if ran.returncode else None
