"""Tell which of kvwal's patches of Hazelcast's classes differ in other sources: python deploy/check_patches.py FOLDER.

FOLDER has the sources of one version of Hazelcast: a checkout, or its unpacked source jar. A patch of an unchanged class can
stay; each patch that is named here has to be compared with the new class. kvwal/node/java/patches.toml lists the patches.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parent.parent / "kvwal" / "node" / "java" / "patches.toml"
ROOTS = ("", "hazelcast/src/main/java")


def patches() -> list[dict[str, Any]]:
    """The patches, as the table has them."""
    found: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["patch"]
    return found


def changed(folder: Path) -> dict[str, str]:
    """Each patched class that is not in the sources under `folder` as it was, and what became of it."""
    found = {}
    for patch in patches():
        path = patch["class"].replace(".", "/") + ".java"
        source = next((folder / root / path for root in ROOTS if (folder / root / path).exists()), None)
        if source is None:
            found[patch["class"]] = "is gone"
        elif hashlib.sha256(source.read_bytes()).hexdigest() != patch["sha256"]:
            found[patch["class"]] = "has changed"
    return found


def main(arguments: list[str]) -> int:
    """0 if every patched class is as it was, 1 if one is not, 2 if FOLDER is missing."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("Usage: python deploy/check_patches.py FOLDER (the sources of one version of Hazelcast)", file=sys.stderr)
        return 2
    found = changed(Path(arguments[0]))
    for name, fate in found.items():
        print(f"{name} {fate}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
