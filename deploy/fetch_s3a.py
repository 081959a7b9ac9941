"""Fetch the jars by which Spark reads and writes `s3a://` into `.cache/jars/s3a`, and check each against a pinned SHA-256.

deploy/s3a-jars.txt lists the jars, 13 MB. The Ivy in pyspark fetches those that are missing, and resolves no dependencies:
hadoop-aws depends on one jar with all of the AWS SDK, which has more than 500 MB.
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

TABLE = Path(__file__).resolve().parent / "s3a-jars.txt"
FOLDER = fetcher.JAR.parent / "s3a"
TIMEOUT_SECONDS = 900


class Jar(NamedTuple):
    """A line of the list."""

    organisation: str
    module: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.module}-{self.version}.jar"


def pinned() -> list[Jar]:
    """The jars of the list."""
    lines = (line.split() for line in TABLE.read_text().splitlines() if not line.startswith("#"))
    return [Jar(*words) for words in lines]


def missing() -> list[Jar]:
    """The jars that are not in `FOLDER`, or are not the pinned ones."""
    return [
        jar
        for jar in pinned()
        if not (FOLDER / jar.name).is_file() or fetcher.checksum(FOLDER / jar.name) != jar.sha256
    ]


def fetch(folder: Path, jars: list[Jar]) -> None:
    """Fetch these jars into `folder` with one run of Ivy. Raises CalledProcessError, TimeoutExpired or OSError."""
    wanted = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(wanted, "info", organisation="kvwal", module="s3a")
    dependencies = ElementTree.SubElement(wanted, "dependencies")
    for jar in jars:
        ElementTree.SubElement(
            dependencies, "dependency", org=jar.organisation, name=jar.module, rev=jar.version, transitive="false"
        )
    ElementTree.ElementTree(wanted).write(folder / "ivy.xml")
    command = [
        fetcher.java(), f"-Divy.cache.dir={folder / 'ivy'}", "-cp", str(fetcher.ivy()), "org.apache.ivy.Main", "-m2compatible",
        "-ivy", str(folder / "ivy.xml"), "-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-types", "jar",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=folder)


def main() -> int:
    """Fetch or check the jars. 0 if all are there; 1, with a sentence, if one could not be fetched or is another one."""
    if not (wanted := missing()):
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as name:
        folder = Path(name)
        try:
            fetch(folder, wanted)
            sums = {jar: fetcher.checksum(folder / jar.name) for jar in wanted}
        except (OSError, subprocess.SubprocessError) as error:
            print(
                f"The jars of {TABLE.name} could not be fetched ({type(error).__name__}). Only s3a:// in Spark needs them:"
                " with a network, `python deploy/fetch_s3a.py` fetches them.",
                file=sys.stderr,
            )
            return 1
        for jar, actual in sums.items():
            if actual != jar.sha256:
                print(
                    f"{jar.name} has the SHA-256 {actual}, but {jar.sha256} is pinned: no jar was kept.",
                    file=sys.stderr,
                )
                return 1
        for jar in wanted:
            shutil.move(folder / jar.name, FOLDER / jar.name)
    print(f"{len(wanted)} jars for s3a:// are in {FOLDER}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
