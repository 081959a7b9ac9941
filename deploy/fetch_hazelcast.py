"""Bring Hazelcast's jar into `.cache/jars`, checked against a pinned SHA-256; a jar that is there is only checked.

There is no Maven on a machine with only Python, but pyspark carries Ivy, which asks the repository Java builds ask.
Without a network this says so and ends well: nothing but the cluster needs the jar.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ORGANISATION, MODULE, VERSION = "com.hazelcast", "hazelcast", "5.7.0"
SHA256 = "241ec66cea8491787f68c3336f069ac463877af50bdb7676cd9d538f1940dc33"
JAR = Path(__file__).resolve().parent.parent / ".cache" / "jars" / f"{MODULE}-{VERSION}.jar"


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def java() -> str:
    """The `java` that Spark uses too (deploy/java_home.py)."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def ivy() -> Path:
    """The Ivy jar inside the installed pyspark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("pyspark is not installed")
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise FileNotFoundError("pyspark brings no Ivy")
    return jars[-1]


def fetch(folder: Path, organisation: str, module: str, version: str) -> Path:
    """Let Ivy bring a jar into `folder`; raises CalledProcessError, TimeoutExpired or OSError where it cannot."""
    command = [
        java(), f"-Divy.cache.dir={folder / 'ivy'}", "-cp", str(ivy()), "org.apache.ivy.Main", "-m2compatible",
        "-dependency", organisation, module, version,
        "-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-types", "jar", "-confs", "default",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=180, cwd=folder)
    came = folder / f"{module}-{version}.jar"
    if not came.exists():
        raise FileNotFoundError(f"Ivy ended without {came.name}")
    return came


def main() -> int:
    """0 when the jar is there or could not be had; 1 when what came is not what was pinned."""
    if JAR.exists():
        if checksum(JAR) == SHA256:
            return 0
        JAR.unlink()
    JAR.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JAR.parent) as name:
        try:
            came = fetch(Path(name), ORGANISATION, MODULE, VERSION)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{JAR.name} could not be fetched ({type(error).__name__}). Only the cluster needs it:")
            print("everything else goes on. Online, `python deploy/fetch_hazelcast.py` brings it.")
            return 0
        if (found := checksum(came)) != SHA256:
            print(f"{JAR.name} has the SHA-256 {found}, but {SHA256} was pinned: it was not kept.", file=sys.stderr)
            return 1
        shutil.move(came, JAR)
    print(f"{JAR.name} is in {JAR.parent.relative_to(Path.cwd()) if JAR.is_relative_to(Path.cwd()) else JAR.parent}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
