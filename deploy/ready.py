#!/usr/bin/env python3
"""Ask a URL whether what stands behind it is ready: `ready.py URL` ends with 0 if it answers 200, else with 1 and the answer.

The images have no curl. Whatever else a health check needs to know is in what the node answers.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

PATIENCE_S = 4


def ask(url: str) -> tuple[bool, str]:
    """Whether the answer was 200, and its text or why there was none."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status == 200, answer.read(4096).decode(errors="replace")
    except urllib.error.HTTPError as error:
        return False, error.read(4096).decode(errors="replace")
    except (OSError, ValueError) as error:
        return False, f"{url}: {error}"


def main(arguments: list[str]) -> int:
    """0 if ready, 1 if not, 2 without a URL."""
    if len(arguments) != 1:
        print("ready.py needs one URL.", file=sys.stderr)
        return 2
    ready, text = ask(arguments[0])
    print(text)
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
