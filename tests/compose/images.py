"""Images for an engine that can pull none: Python from Debian's packages, and the programs of the object store and of Prometheus.

Each stands for an image that docker-compose.yml or deploy/Dockerfile names. So the pinned digests are not proved by such a run.
What this machine needs to reach its package sources (certificates, settings of pip) is copied into the local images only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.compose import debian
from tests.compose.engine import FOLDER, Engine
from tests.support.deploy.stack import found_program

PYTHON = "local/python"
OBJECT_STORE = "local/seaweedfs"
PROMETHEUS = "local/prometheus"
_UNDER = FOLDER / "under"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_JAVA_CERTIFICATES = Path("/etc/ssl/certs/java/cacerts")
_PIP = Path("/etc/pip.conf")
_APPLETS = ("sh", "wget", "cat", "ls")


def make(engine: Engine) -> None:
    """Make the images that the engine does not have yet."""
    missing = [name for name in (PYTHON, OBJECT_STORE, PROMETHEUS) if not _is_there(engine, name)]
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        for name in missing:
            {PYTHON: _python, OBJECT_STORE: _object_store, PROMETHEUS: _prometheus}[name](
                engine, Path(scratch) / name[6:]
            )


def _is_there(engine: Engine, name: str) -> bool:
    return engine.run("image", "inspect", name, checked=False).returncode == 0


def _python(engine: Engine, root: Path) -> None:
    command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
    _run(
        [*command, f"--keyring={debian.KEYS}", debian.codename(), str(root), debian.mirror()],
        {**engine.environment, "DEBOOTSTRAP_DIR": str(_UNDER / "usr" / "share" / "debootstrap")},
    )
    environment = {"SSL_CERT_FILE": _CERTIFICATES, "PIP_CERT": _CERTIFICATES, "REQUESTS_CA_BUNDLE": _CERTIFICATES}
    for path in (_CERTIFICATES, _JAVA_CERTIFICATES, _PIP):
        if path.exists():
            _copy(path, root)
    if _JAVA_CERTIFICATES.exists():
        environment["JAVA_TOOL_OPTIONS"] = Path(f"-Djavax.net.ssl.trustStore={_JAVA_CERTIFICATES}")
    _load(engine, root, PYTHON, [f"ENV {name}={value}" for name, value in environment.items()])


def _object_store(engine: Engine, root: Path) -> None:
    _program(root, Path(found_program("weed") or "weed").resolve())
    _load(engine, root, OBJECT_STORE, ['ENTRYPOINT ["/usr/bin/weed"]', "ENV PATH=/bin:/usr/bin"])


def _prometheus(engine: Engine, root: Path) -> None:
    _program(root, _UNDER / "usr" / "bin" / "prometheus")
    _load(engine, root, PROMETHEUS, ['ENTRYPOINT ["/usr/bin/prometheus"]', "ENV PATH=/bin:/usr/bin"])


def _program(root: Path, program: Path) -> None:
    """A file system with one program, the libraries that it links, and a few tools of busybox."""
    for name in ("bin", "usr/bin", "tmp", "etc", "data", "prometheus"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    shutil.copy2(program, root / "usr" / "bin")
    shutil.copy2(_UNDER / "bin" / "busybox", root / "bin")
    for applet in _APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    for library in re.findall(r"(/\S+)", linked.stdout):
        _copy(Path(library), root)


def _copy(path: Path, root: Path) -> None:
    target = root / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path.resolve(), target)


def _load(engine: Engine, root: Path, name: str, changes: list[str]) -> None:
    packed = root.with_suffix(".tar")
    _run(["tar", "--create", "--numeric-owner", "--file", str(packed), "--directory", str(root), "."], dict(os.environ))
    engine.run("import", *(word for change in changes for word in ("--change", change)), str(packed), name)
    packed.unlink()


def _run(words: list[str], environment: dict[str, str]) -> None:
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed ({ran.returncode}):\n{ran.stdout[-4000:]}{ran.stderr[-4000:]}")
