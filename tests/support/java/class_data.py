"""Class-data archives for the JVMs that tests start: a JVM that maps one starts with a third to a half less processor time.

An archive holds the parsed and verified classes of one class path. The first run makes it under `.cache`, and later runs use it
for as long as the Java and the jars stay the same. Where an archive cannot be made, JVMs start without it.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.repository.source import ROOT

FOLDER = ROOT / ".cache" / "class-data"


def java_options(name: str, home: Path, files: Sequence[Path], fill: Callable[[list[str]], None]) -> list[str]:
    """Options that map the archive `name` of the Java at `home`, or no options.

    `files` are those of the class path. `fill` runs a program on that Java with the options given to it, whose JVM writes the
    archive when it ends.
    """
    base = _base(home)
    if base is None:
        return []
    java = home / "lib" / "server" / "libjvm.so"
    archive = FOLDER / f"{name}-{_key([java.resolve(), base, *files])}.jsa"
    with _lock(name):
        if not archive.exists():
            for old in FOLDER.glob(f"{name}-*.jsa"):
                old.unlink()
            partial = archive.with_suffix(".partial")  # a run that is killed leaves no half archive under the name
            partial.unlink(missing_ok=True)
            fill([f"-XX:SharedArchiveFile={base}", f"-XX:ArchiveClassesAtExit={partial}"])
            if partial.exists():
                partial.rename(archive)
    return [f"-XX:SharedArchiveFile={base}:{archive}"] if archive.exists() else []


def _base(home: Path) -> Path | None:
    """The archive of Java's own classes, on which the others stand. A Java without one writes it in a second."""
    own = home / "lib" / "server" / "classes.jsa"
    if own.exists():
        return own
    java, program = home / "lib" / "server" / "libjvm.so", home / "bin" / "java"
    if not (java.exists() and program.exists()):
        return None
    base = FOLDER / f"base-{_key([java.resolve()])}.jsa"
    with _lock("base"):
        if not base.exists():
            partial = base.with_suffix(".partial")
            command = [program, "-Xshare:dump", f"-XX:SharedArchiveFile={partial}"]
            subprocess.run(command, capture_output=True, check=False)
            if partial.exists():
                partial.rename(base)
    return base if base.exists() else None


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """One process at a time makes an archive, and the others wait for it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _key(files: Iterable[Path]) -> str:
    """What the JVM compares when it maps the archive: itself and the files of the class path."""
    facts = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
