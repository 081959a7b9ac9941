#!/usr/bin/env python3
"""The health check of a container: `ready.py URL` exits with 0 if the URL answers 200, else with 1. It prints the answer.

The images have no curl. The answer of a node says why it is not ready.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

TIMEOUT_SECONDS = 4


def ask(url: str) -> tuple[bool, str]:
    """Whether the URL answered 200, and the text of the answer or of the error."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status == 200, answer.read(4096).decode(errors="replace")
    except urllib.error.HTTPError as error:
        return False, error.read(4096).decode(errors="replace")
    except (OSError, ValueError) as error:
        return False, f"{url}: {error}"


def main(arguments: list[str]) -> int:
    """The exit code: 0 if ready, 1 if not, 2 without a URL."""
    if len(arguments) != 1:
        print("ready.py needs one URL.", file=sys.stderr)
        return 2
    ready, text = ask(arguments[0])
    print(text)
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
