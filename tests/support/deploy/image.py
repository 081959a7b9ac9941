"""The images of deploy/Dockerfile without an engine: its steps, run by deploy/build.sh in a box, over the files of the context.

What takes long and is the same here is not done again: what builds is the environment that `make setup` made, and so is what
runs Spark.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.repository.source import ROOT
from tests.support.deploy import compose
from tests.support.deploy.box import Box, Way

SOURCE = "/srv/source"
FOLDER = "/srv/kvwal"
JARS = Path(".cache") / "jars"


def s3a_jars() -> bool:
    """Whether the jars for `s3a://` are in the cache, after fetching those that are missing."""
    fetched = subprocess.run([sys.executable, "deploy/fetch_s3a.py"], cwd=ROOT, check=False)
    return fetched.returncode == 0


def copy_context(layer: Path) -> None:
    """What the Dockerfile copies, and the jars that the cache has, as if they had just been fetched."""
    source = layer / "upper" / SOURCE.lstrip("/")
    for path in [
        *compose.context(),
        *(jar.relative_to(ROOT) for jar in (ROOT / JARS).rglob("*.jar")),
    ]:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, source / path)


def commands(stage: str) -> list[str]:
    """The RUN lines of a stage of the Dockerfile."""
    text = re.sub(r"\\\n", " ", compose.DOCKERFILE.read_text())
    own = text.partition(f" AS {stage}\n")[2].partition("\nFROM ")[0]
    return [
        re.sub(r"--mount=\S+ ", "", line.removeprefix("RUN ")) for line in own.splitlines() if line.startswith("RUN ")
    ]


def build(layer: Path) -> None:
    """Make both images in `layer`; a box over it runs them."""
    copy_context(layer)
    box = Box(layer)
    way = Way("build", {**os.environ, "PYTHON": sys._base_executable})  # type: ignore[attr-defined]
    here = shlex.quote(sys.prefix)
    steps = [
        f"mkdir -p {FOLDER} && ln -s {here} {FOLDER}/tools && ln -s {here} {FOLDER}/spark",
        *(line for line in commands("build") if not line.endswith(" tools")),
        # The environment of Spark is the link above.
        *(line.replace(" spark ", " ") for line in commands("build-spark")),
        *commands("runtime"),
        # What the step `spark` adds to its environment.
        f"{FOLDER}/spark/bin/python deploy/java_home.py --bundled",
        f"install -m 755 deploy/ready.py {FOLDER}/spark/bin/kvwal-ready",
    ]
    try:
        for step in steps:
            ran = box.run(["sh", "-euc", f"cd {SOURCE} && {step}"], way)
            assert ran.returncode == 0, f"{step}\n{ran.stdout}{ran.stderr}"
    finally:
        box.close()
