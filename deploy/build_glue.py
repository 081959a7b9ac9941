"""Compile the glue between Hazelcast and the log (`kvwal/node/java`) into `kvwal/node/glue.jar`, which a wheel ships.

With a JDK its javac does it. A machine with only a Java runtime gets ecj, the compiler of Eclipse, through the Ivy that pyspark
carries. Without Hazelcast's jar this says so and ends well: nothing but the cluster needs the glue.
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
GLUE = ROOT / "kvwal" / "node" / "glue.jar"
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
    found = javac()
    if found is not None:
        return [found, "--release", RELEASE, "-Xlint:all,-serial,-classfile", "-Werror"]
    jar = fetch.fetch(scratch, *ECJ)
    if (came := fetch.checksum(jar)) != ECJ_SHA256:
        raise FileNotFoundError(f"{jar.name} has the SHA-256 {came}, but {ECJ_SHA256} was pinned")
    return [fetch.java(), "-jar", str(jar), "-source", RELEASE, "-target", RELEASE, "-nowarn"]


def compile_to(classes: Path, scratch: Path) -> None:
    """Compile every source of the glue into `classes`."""
    command = [
        *compiler(scratch),
        "-cp",
        str(fetch.JAR),
        "-d",
        str(classes),
        *map(str, sorted(SOURCES.rglob("*.java"))),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if ran.returncode:
        raise RuntimeError(ran.stdout + ran.stderr)


def pack(classes: Path, jar: Path) -> None:
    """The classes as a jar: the same bytes from the same classes, whenever it is made."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            entry = zipfile.ZipInfo(str(path.relative_to(classes)), EPOCH)
            archive.writestr(entry, path.read_bytes(), compress_type=zipfile.ZIP_DEFLATED)


def main() -> int:
    """0 when the glue was built, or Hazelcast's jar is not there; 1 when it does not compile."""
    if not fetch.JAR.exists():
        print(f"{fetch.JAR.name} is not here, so the glue of `kvwal node` was not built. Everything else goes on.")
        return 0
    with tempfile.TemporaryDirectory(dir=GLUE.parent) as name:
        scratch = Path(name)
        classes = scratch / "classes"
        classes.mkdir()
        try:
            compile_to(classes, scratch)
        except (OSError, subprocess.SubprocessError) as error:
            print(
                f"There is no Java compiler, and none could be fetched ({error}): no `kvwal node`. Everything else goes on."
            )
            return 0
        except RuntimeError as error:
            print(f"The glue does not compile:\n{error}", file=sys.stderr)
            return 1
        pack(classes, scratch / GLUE.name)
        (scratch / GLUE.name).replace(GLUE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
