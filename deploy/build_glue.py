"""Compile the Java bridge between Hazelcast and the log (`kvwal/node/java`) into `kvwal/node/glue.jar`, which a wheel ships.

A JDK compiles it with javac. On a machine with only a Java runtime, the Ivy in pyspark fetches ecj, the compiler of Eclipse.
Without Hazelcast's jar the script prints so and exits with 0, because only the cluster needs the bridge.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import fetch_hazelcast as fetch

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "kvwal" / "node" / "java" / "src"
BRIDGE_JAR = ROOT / "kvwal" / "node" / "glue.jar"
ECJ = ("org.eclipse.jdt", "ecj", "3.42.0")
ECJ_SHA256 = "29f6d3918ee02db4400c103bc25dd90a22491c3a395867d9393070cb96a7dd29"
RELEASE = "17"
EPOCH = (1980, 1, 1, 0, 0, 0)


def javac() -> str | None:
    """The javac of JAVA_HOME, or the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    own = Path(home) / "bin" / "javac" if home else None
    return str(own) if own is not None and own.exists() else shutil.which("javac")


def compiler(scratch: Path) -> list[str]:
    """The command that compiles for Java 17, up to its class path."""
    jdk_compiler = javac()
    if jdk_compiler is not None:
        return [jdk_compiler, "--release", RELEASE, "-Xlint:all,-serial,-classfile", "-Werror"]
    jar = fetch.fetch(scratch, *ECJ)
    if (actual := fetch.checksum(jar)) != ECJ_SHA256:
        raise FileNotFoundError(f"{jar.name} has the SHA-256 {actual}, but {ECJ_SHA256} is pinned")
    return [fetch.java(), "-jar", str(jar), "-source", RELEASE, "-target", RELEASE, "-nowarn"]


def compile_to(classes: Path, scratch: Path) -> None:
    """Compile all Java sources into `classes`. Raises `RuntimeError` with the compiler's output."""
    command = [
        *compiler(scratch),
        "-cp",
        str(fetch.JAR),
        "-d",
        str(classes),
        *map(str, sorted(SOURCES.rglob("*.java"))),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if run.returncode:
        raise RuntimeError(run.stdout + run.stderr)


def pack(classes: Path, jar: Path) -> None:
    """Pack the classes into a jar. The same classes give the same bytes: every entry has the same time."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            entry = zipfile.ZipInfo(str(path.relative_to(classes)), EPOCH)
            archive.writestr(entry, path.read_bytes(), compress_type=zipfile.ZIP_DEFLATED)


def main() -> int:
    """Build the jar. 0 if it was built, or could not be built on this machine; 1 if the sources do not compile."""
    if not fetch.JAR.exists():
        print(
            f"{fetch.JAR.name} is missing, so the Java bridge of `kvwal node` was not built. Only the cluster needs it."
        )
        return 0
    with tempfile.TemporaryDirectory(dir=BRIDGE_JAR.parent) as name:
        scratch = Path(name)
        classes = scratch / "classes"
        classes.mkdir()
        try:
            compile_to(classes, scratch)
        except (OSError, subprocess.SubprocessError) as error:
            print(
                f"There is no Java compiler, and none could be fetched ({error}): the Java bridge of `kvwal node` was not built."
                " Only the cluster needs it."
            )
            return 0
        except RuntimeError as error:
            print(f"The Java bridge does not compile:\n{error}", file=sys.stderr)
            return 1
        pack(classes, scratch / BRIDGE_JAR.name)
        (scratch / BRIDGE_JAR.name).replace(BRIDGE_JAR)
    return 0


if __name__ == "__main__":
    sys.exit(main())
