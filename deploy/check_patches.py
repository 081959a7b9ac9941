"""The check of kvwal's patches against another version of Hazelcast: `python deploy/check_patches.py FOLDER`.

FOLDER has the sources of that version: a checkout, or the unpacked source jar. The script prints each patched class whose
source differs or is missing there; compare its patch with the new class. The patch of an unchanged class can stay.
kvwal/node/java/patches.toml lists the patches.
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
    """The patches in patches.toml."""
    table: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["patch"]
    return table


def changed(folder: Path) -> dict[str, str]:
    """The patched classes that differ in the sources under `folder`, each with its change: missing or changed."""
    changes = {}
    for patch in patches():
        path = patch["class"].replace(".", "/") + ".java"
        source = next((folder / root / path for root in ROOTS if (folder / root / path).exists()), None)
        if source is None:
            changes[patch["class"]] = "is gone"
        elif hashlib.sha256(source.read_bytes()).hexdigest() != patch["sha256"]:
            changes[patch["class"]] = "has changed"
    return changes


def main(arguments: list[str]) -> int:
    """The exit code: 0 if no patched class changed, 1 if one did, 2 if FOLDER is missing."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("Usage: python deploy/check_patches.py FOLDER (the sources of one version of Hazelcast)", file=sys.stderr)
        return 2
    changes = changed(Path(arguments[0]))
    for name, change in changes.items():
        print(f"{name} {change}")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
