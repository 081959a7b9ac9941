"""Debian packages from the mirror of this machine, unpacked into a folder. Nothing is installed, and nothing starts by itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def codename() -> str:
    """The release of this machine, as apt names it; empty where it is no Debian."""
    lines = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return lines.get("VERSION_CODENAME", "") if lines.get("ID") == "debian" else ""


def mirror() -> str:
    """The URL that apt reads this release's main packages from; empty where there is none."""
    if shutil.which("apt-get") is None or not codename():
        return ""
    targets = _said("apt-get", "indextargets", "--format", "$(REPO_URI)", f"Release: {codename()}", "Component: main")
    return next(iter(targets.split()), "")


def unpack(folder: Path, suite: str, packages: tuple[str, ...]) -> None:
    """Download packages of a suite, and unpack them into `folder`. apt's own lists stay as they are."""
    apt = folder.with_name(f"{folder.name}.apt")
    for part in ("lists/partial", "cache/archives/partial", "packages"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text(f"deb [signed-by={KEYS}] {mirror()} {suite} main\n")
    options = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    command = ["apt-get", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    _said(*command, "update", "-qq")
    _said(*command, "download", "-qq", *packages, folder=apt / "packages")
    for package in sorted((apt / "packages").glob("*.deb")):
        _said("dpkg-deb", "-x", str(package), str(folder))
    shutil.rmtree(apt)


def _said(*words: str, folder: Path | None = None) -> str:
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed ({ran.returncode}):\n{ran.stdout}{ran.stderr}")
    return ran.stdout
