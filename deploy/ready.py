#!/usr/bin/env python3
"""The health check of a container: `ready.py [--within SECONDS] URL` exits with 0 if the URL answers 200, else with 1.

With `--within` it waits for a service that starts, until SECONDS after the first check of the container. It does not wait for a
program that kvwal-hold holds: that one will not be ready. The images have no curl. The answer of a node says why it is not ready;
it is printed.
"""

from __future__ import annotations

import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

TIMEOUT_SECONDS = 4
BETWEEN_SECONDS = 0.5
WAS_READY = "kvwal-was-ready"
FIRST_CHECK = "kvwal-first-check"
HELD = "kvwal-held"
"""kvwal-hold writes it."""


def ask(url: str) -> tuple[bool, str]:
    """Whether the URL answered 200, and the text of the answer or of the error."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status == 200, answer.read(4096).decode(errors="replace")
    except urllib.error.HTTPError as error:
        return False, error.read(4096).decode(errors="replace")
    except (OSError, ValueError) as error:
        return False, f"{url}: {error}"


def wait(url: str, seconds: float, folder: Path) -> tuple[bool, str]:
    """As `ask`, and for `seconds` after the first check the service is asked again until it is ready: it may be starting.

    Files of `folder`, which is empty when the container starts, keep the time of the first check and whether it was ready once.
    """
    began = folder / FIRST_CHECK
    if not began.exists():
        began.touch()
    until = began.stat().st_mtime + seconds
    while True:
        ready, text = ask(url)
        held = folder / HELD
        if held.exists():
            return False, held.read_text()
        if ready:
            (folder / WAS_READY).touch()
        if ready or (folder / WAS_READY).exists() or time.time() >= until:
            return ready, text
        time.sleep(BETWEEN_SECONDS)


def main(arguments: list[str]) -> int:
    """The exit code: 0 if ready, 1 if not, 2 if the arguments are wrong."""
    seconds = 0.0
    if arguments[:1] == ["--within"] and len(arguments) == 3:
        seconds, arguments = float(arguments[1]), arguments[2:]
    if len(arguments) != 1:
        print("ready.py needs one URL, and before it --within SECONDS or nothing.", file=sys.stderr)
        return 2
    ready, text = wait(arguments[0], seconds, Path(tempfile.gettempdir())) if seconds else ask(arguments[0])
    print(text)
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
