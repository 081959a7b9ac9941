"""Real logs of SeaTunnel, Flume and NiFi: the programs in tests/golden/importers/java write them and read them back.

python -m tests.support.java.logs FOLDER     write the golden logs anew into a folder
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

import pytest

from tests.repository.source import ROOT

GOLDEN = ROOT / "tests" / "golden" / "importers"
PROJECT = GOLDEN / "java"
BUILT = ROOT / ".cache" / "logs"
CLASS_PATH = BUILT / "classpath"
PRODUCTS = ("seatunnel", "flume", "nifi-sequential", "nifi-minimal")
EXPECTED = "expected.jsonl"
"""What the library gives back of a golden log, a line each."""
_FILL = b"\x80"
_KEPT_FILL = 64


@cache
def unavailable() -> str | None:
    """Why the programs cannot run here; None if they can. Builds them if need be."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        return "Maven and a JDK build the programs that write real logs, and one of them is missing"
    sources = [PROJECT / "pom.xml", *PROJECT.rglob("*.java")]
    if CLASS_PATH.exists() and max(path.stat().st_mtime for path in sources) <= CLASS_PATH.stat().st_mtime:
        return None
    BUILT.mkdir(parents=True, exist_ok=True)
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={CLASS_PATH}", "-Dmdep.regenerateFile=true"]
    run = subprocess.run(
        ["mvn", "--batch-mode", "--quiet", *goals], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    if run.returncode:
        return f"Maven could not build the programs that write real logs:\n{run.stdout[-1500:]}"
    os.utime(CLASS_PATH)
    return None


def skip_without() -> None:
    """Skip the test if the programs cannot run here."""
    if (reason := unavailable()) is not None:
        pytest.skip(reason)


def write(product: str, folder: Path, changes: int = 40, seed: int = 7) -> None:
    """Write a log with the library."""
    _run(product, "write", folder, changes, seed)


def read(product: str, folder: Path) -> list[dict[str, Any]]:
    """What the library gives back of a log. It may change the log: give it a copy."""
    return [json.loads(line) for line in _run(product, "read", folder).splitlines() if line.startswith("{")]


def _run(product: str, verb: str, folder: Path, *arguments: int) -> str:
    home = os.environ.get("JAVA_HOME")
    path = f"{BUILT / 'classes'}:{CLASS_PATH.read_text().strip()}"
    command = [f"{home}/bin/java" if home else "java", "-Xmx512m", "-cp", path, "logs.Main", product, verb, str(folder)]
    run = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{product} {verb} ended with {run.returncode}:\n{run.stdout[-500:]}{run.stderr[-1500:]}")
    return run.stdout


def make_golden(folder: Path) -> None:
    """Write every golden log with what its library gives back. Flume's fill, and its checkpoint, are left out for their size."""
    for product in PRODUCTS:
        target = folder / product
        write(product, target)
        copy = folder / f"{product}.copy"
        shutil.copytree(target, copy)
        lines = sorted(json.dumps(each, ensure_ascii=False, sort_keys=True) for each in read(product, copy))
        if product == "flume":
            lines = [json.dumps(each, ensure_ascii=False, sort_keys=True) for each in read(product, copy)]
            shutil.rmtree(target / "checkpoint")
        (target / EXPECTED).write_text("\n".join(lines) + "\n")
        shutil.rmtree(copy)
        for path in target.rglob("*"):
            if path.name in ("in_use.lock", "wali.lock"):
                path.unlink()
            elif path.is_file() and path.parent.name.startswith("data") and not path.suffix:
                data = path.read_bytes()
                path.write_bytes(data.rstrip(_FILL) + _FILL * _KEPT_FILL if data.endswith(_FILL) else data)


if __name__ == "__main__":
    if (missing := unavailable()) is not None:
        sys.exit(missing)
    make_golden(Path(sys.argv[1]))
