"""A class-data archive for the JVMs of test nodes: a node that maps it starts with a third less processor time.

The archive holds the parsed classes of Hazelcast and the glue. The first run makes it under `.cache`, for as long as the Java
and the jars stay the same. A Java without class-data sharing of its own makes none, and nodes then start without it.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import jpype

from tests.repository.source import ROOT

FOLDER = ROOT / ".cache" / "class-data"


def java_options(jars: Sequence[Path], fill: Callable[[str], None]) -> list[str]:
    """Options that map the archive. `fill` runs a node with the option given to it, whose JVM writes the archive when it ends."""
    archive = FOLDER / f"{_key(jars)}.jsa"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists() and _can_share():
            for old in FOLDER.glob("*.jsa"):
                old.unlink()
            partial = archive.with_suffix(".partial")  # a run that is killed leaves no half archive under the name
            partial.unlink(missing_ok=True)
            fill(f"-XX:ArchiveClassesAtExit={partial}")
            if partial.exists():
                partial.rename(archive)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def _can_share() -> bool:
    """Java's own classes are shared already: an archive of other classes stands on theirs."""
    return Path(jpype.getDefaultJVMPath()).with_name("classes.jsa").exists()


def _key(jars: Sequence[Path]) -> str:
    """What the JVM compares when it maps the archive: itself and the files of the class path."""
    java = Path(jpype.getDefaultJVMPath()).resolve()
    facts = [jpype.__version__, *(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in (java, *jars))]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
