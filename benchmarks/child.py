"""A child process that runs one function: `python -m benchmarks.child module:function '{"argument": …}'`."""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    """Call the function, and print its result as JSON on the last line."""
    module, _, name = sys.argv[1].partition(":")
    print(json.dumps(getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
