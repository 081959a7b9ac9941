"""The Java peers: built by Maven from benchmarks/peers/java when their source is newer, and run one program at a time.

python -m benchmarks.peers.java      build them
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT

PROJECT = ROOT / "benchmarks" / "peers" / "java"
BUILT = ROOT / ".cache" / "peers"
CLASS_PATH = BUILT / "classpath"
CLASSES = BUILT / "classes"
HEAP = 3_072
"""MiB, where the workload sets no limit."""


class BuildFailed(RuntimeError):
    """Maven did not build the peers."""


def java() -> str:
    """The `java` of JAVA_HOME, else that of the PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def is_built() -> bool:
    """Whether the classes are there, and no source is newer."""
    if not CLASS_PATH.exists() or not CLASSES.exists():
        return False
    sources = [PROJECT / "pom.xml", *PROJECT.rglob("*.java")]
    return max(path.stat().st_mtime for path in sources) <= CLASS_PATH.stat().st_mtime


def build() -> None:
    """Compile, and fetch the jars. Raises `BuildFailed` with the end of Maven's output."""
    if is_built():
        return
    BUILT.mkdir(parents=True, exist_ok=True)
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={CLASS_PATH}", "-Dmdep.regenerateFile=true"]
    run = subprocess.run(
        ["mvn", "--batch-mode", "--quiet", *goals], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise BuildFailed(run.stdout[-1500:])
    os.utime(CLASS_PATH)


@cache
def unavailable() -> str | None:
    """Why the Java peers cannot run, with what to do about it; None if they can. Builds them if need be."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        return "Maven and a JDK build it, and one of them is missing. apt-get install maven default-jdk-headless brings both."
    try:
        build()
    except BuildFailed as failure:
        return f"Maven could not build it (it fetches jars, so it needs a network):\n{failure}"
    return None


def command(peer: str, verb: str, memory: int | None = None, **arguments: Any) -> list[str]:
    """The command of one program."""
    path = f"{CLASSES}:{CLASS_PATH.read_text().strip()}"
    words = [f"{name}={value}" for name, value in arguments.items()]
    return [java(), f"-Xmx{memory or HEAP}m", "-cp", path, "peers.Main", peer, verb, *words]


def answer(output: str) -> dict[str, float]:
    """The JSON in the last line that has any: some peers print while they end."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1]))


def run(peer: str, verb: str, memory: int | None = None, **arguments: Any) -> dict[str, float]:
    """Run a program, and return its answer. Raises `RuntimeError` with its errors."""
    child = subprocess.run(
        command(peer, verb, memory, **arguments), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if child.returncode or "{" not in child.stdout:
        raise RuntimeError(f"{peer} {verb} ended with {child.returncode}:\n{child.stdout[-500:]}{child.stderr[-1500:]}")
    return answer(child.stdout)


if __name__ == "__main__":
    reason = unavailable()
    print(reason or f"The Java peers are in {Path(BUILT).relative_to(ROOT)}.")
    sys.exit(1 if reason else 0)
