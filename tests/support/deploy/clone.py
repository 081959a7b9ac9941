"""A fresh clone of this repository as set-up leaves it, but for the packages: those that the tests run with are its own, too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.repository.source import ROOT

GLUE = "kvwal/node/glue.jar"
JARS = ".cache/jars"


def clone(folder: Path) -> Path:
    """Clone what is committed into `folder`, and give it a `.venv` with kvwal from the clone. Nothing is fetched."""
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True)
    environment = folder / ".venv"
    venv.create(environment, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    own = [folder, folder / "archive", Path(sysconfig.get_path("purelib"))]
    (packages / "clone.pth").write_text("".join(f"{path}\n" for path in own))
    for program in Path(sysconfig.get_path("scripts")).iterdir():
        if program.is_file() and not (environment / "bin" / program.name).exists():
            _copy(program, environment / "bin" / program.name)
    if (ROOT / JARS).is_dir():
        shutil.copytree(ROOT / JARS, folder / JARS)
    (environment / ".set-up").touch()
    if (ROOT / GLUE).is_file():
        shutil.copy(ROOT / GLUE, folder / GLUE)
        (folder / GLUE).touch()
    return folder


def _copy(program: Path, copy: Path) -> None:
    """A script names its Python in the first line: in the copy it is the Python of the clone."""
    content = program.read_bytes()
    if content.startswith(b"#!"):
        copy.write_bytes(content.replace(os.fsencode(sys.prefix), os.fsencode(copy.parents[1])))
        copy.chmod(0o755)
    else:
        copy.symlink_to(program)
