"""Fetch Hazelcast's jar into `.cache/jars` and check it against a pinned SHA-256. A jar that is there is only checked.

A machine with only Python has no Maven. The Ivy in pyspark fetches the jar from the same repository. Without a network the
script prints so and exits with 0, because only the cluster needs the jar.
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
    """The `java` of JAVA_HOME (deploy/java_home.py), else that of the PATH. Spark uses the same one."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def ivy() -> Path:
    """The Ivy jar inside the installed pyspark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("pyspark is not installed")
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise FileNotFoundError("the installed pyspark has no Ivy jar")
    return jars[-1]


def fetch(folder: Path, organisation: str, module: str, version: str) -> Path:
    """Fetch a jar into `folder` with Ivy. Raises CalledProcessError, TimeoutExpired or OSError."""
    command = [
        java(), f"-Divy.cache.dir={folder / 'ivy'}", "-cp", str(ivy()), "org.apache.ivy.Main", "-m2compatible",
        "-dependency", organisation, module, version,
        "-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-types", "jar", "-confs", "default",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=180, cwd=folder)
    jar = folder / f"{module}-{version}.jar"
    if not jar.exists():
        raise FileNotFoundError(f"Ivy ended without {jar.name}")
    return jar


def main() -> int:
    """Fetch or check the jar. 0 if it is there or could not be fetched; 1 if the fetched jar has another SHA-256."""
    if JAR.exists():
        if checksum(JAR) == SHA256:
            return 0
        JAR.unlink()
    JAR.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JAR.parent) as name:
        try:
            jar = fetch(Path(name), ORGANISATION, MODULE, VERSION)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{JAR.name} could not be fetched ({type(error).__name__}). Only the cluster needs it:")
            print("everything else works without it. With a network, `python deploy/fetch_hazelcast.py` fetches it.")
            return 0
        if (actual := checksum(jar)) != SHA256:
            print(f"{JAR.name} has the SHA-256 {actual}, but {SHA256} is pinned: it was not kept.", file=sys.stderr)
            return 1
        shutil.move(jar, JAR)
    print(f"{JAR.name} is in {JAR.parent.relative_to(Path.cwd()) if JAR.is_relative_to(Path.cwd()) else JAR.parent}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
