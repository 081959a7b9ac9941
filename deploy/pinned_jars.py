"""Fetch jars that a list pins by SHA-256, with the Ivy in pyspark. A jar that is there is only checked.

A list has a jar a line: organisation, module, version, SHA-256, and the classifier of a jar that has one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import fetch_hazelcast as fetcher

FOLDER = fetcher.JAR.parent
TIMEOUT_SECONDS = 900
MAVEN = "http://ant.apache.org/ivy/maven"


class Jar(NamedTuple):
    """A line of a list."""

    organisation: str
    module: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def name(self) -> str:
        """The name of its file."""
        return "-".join(filter(None, (self.module, self.version, self.classifier))) + ".jar"


def read(table: Path) -> list[Jar]:
    """The jars of a list."""
    lines = (line.split() for line in table.read_text().splitlines() if not line.startswith("#"))
    return [Jar(*words) for words in lines]


def missing(folder: Path, jars: list[Jar]) -> list[Jar]:
    """The jars that are not in `folder`, or are not the pinned ones."""
    return [
        jar for jar in jars if not (folder / jar.name).is_file() or fetcher.checksum(folder / jar.name) != jar.sha256
    ]


def fetch(folder: Path, jars: list[Jar]) -> None:
    """Fetch these jars into `folder` with one run of Ivy. Raises CalledProcessError, TimeoutExpired or OSError."""
    ElementTree.register_namespace("m", MAVEN)
    wanted = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(wanted, "info", organisation="kvwal", module="jars")
    dependencies = ElementTree.SubElement(wanted, "dependencies")
    for jar in jars:
        dependency = ElementTree.SubElement(
            dependencies, "dependency", org=jar.organisation, name=jar.module, rev=jar.version, transitive="false"
        )
        if jar.classifier:
            dependency.set("conf", "default->*")
            ElementTree.SubElement(
                dependency, "artifact", {"name": jar.module, "type": "jar", f"{{{MAVEN}}}classifier": jar.classifier}
            )
    ElementTree.ElementTree(wanted).write(folder / "ivy.xml")
    command = [
        fetcher.java(), f"-Divy.cache.dir={folder / 'ivy'}", "-cp", str(fetcher.ivy()), "org.apache.ivy.Main", "-m2compatible",
        "-ivy", str(folder / "ivy.xml"), "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]", "-types", "jar",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=folder)


def bring(folder: Path, table: Path, use: str, *, offline: int = 1) -> int:
    """Have the jars of a list in `folder`. 0 if all are there; 1, with a sentence, if a fetched jar is not the pinned one.

    `offline`, with a sentence that ends in `use`, if one could not be fetched: what needs it, and how to fetch it later.
    """
    if not (wanted := missing(folder, read(table))):
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name)
        try:
            fetch(scratch, wanted)
            sums = {jar: fetcher.checksum(scratch / jar.name) for jar in wanted}
        except (OSError, subprocess.SubprocessError) as error:
            print(f"The jars of {table.name} could not be fetched ({type(error).__name__}). {use}", file=sys.stderr)
            return offline
        for jar, actual in sums.items():
            if actual != jar.sha256:
                print(
                    f"{jar.name} has the SHA-256 {actual}, but {jar.sha256} is pinned: no jar was kept.",
                    file=sys.stderr,
                )
                return 1
        for jar in wanted:
            shutil.move(scratch / jar.name, folder / jar.name)
    print(f"{len(wanted)} jars of {table.name} are in {folder}.")
    return 0
