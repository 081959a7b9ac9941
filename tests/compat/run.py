"""`make compat CLIENT_TESTS=FOLDER`: runs the client's tests on a plain member and on a node, and writes docs/compatibility.md.

FOLDER is a checkout of the client's sources, of the release that is installed here: the packages of the client carry no tests.
Modules that were run before are not run again: `make compat AGAIN=1` forgets them. ARGS chooses modules by a part of their path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from compat import jars, table

ROOT = Path(__file__).resolve().parent.parent.parent
FOUND = ROOT / ".cache" / "compat" / "found"
KINDS = ("plain", "node")
PATIENCE_S = 120
"""For one test: a client waits for ever for members that listen elsewhere than its test had asked for in XML."""
# Hazelcast sells what these need: their tests ask for a licence, and a plain member without one fails them as a node does.
_LEFT_OUT = (
    "ssl_tests", "authentication_tests",
    # The same calls through the client's other face: members are asked the same.
    "integration/asyncio",
)  # fmt: skip


def modules(client: Path) -> list[str]:
    """Every module of integration tests, by its path under `client`."""
    folder = client / "tests" / "integration"
    found = sorted(str(path.relative_to(client)) for path in folder.rglob("*_test.py"))
    return [module for module in found if not any(part in module for part in _LEFT_OUT)]


def report(kind: str, module: str) -> Path:
    """Where the outcomes of a module's tests are kept."""
    return FOUND / kind / (module.removeprefix("tests/integration/").removesuffix(".py").replace("/", ".") + ".jsonl")


def run(client: Path, kind: str, module: str) -> None:
    """Run a module on members of a kind; an interrupted run leaves nothing."""
    done = report(kind, module)
    if done.exists():
        return
    done.parent.mkdir(parents=True, exist_ok=True)
    begun = done.with_suffix(".begun")
    begun.unlink(missing_ok=True)
    begun.touch()
    path = os.pathsep.join([str(client), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "compat.plugin", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir",
         str(client), "--tb=short", f"--timeout={PATIENCE_S}", module],
        cwd=client, check=False, stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path, "COMPAT_MEMBER": kind, "COMPAT_REPORT": str(begun)},
    )  # fmt: skip
    begun.rename(done)


def check(client: Path) -> str | None:
    """What is missing, as a sentence."""
    installed = version("hazelcast-python-client")
    if not (client / "tests" / "integration").is_dir():
        return (
            f"{client} holds no tests/integration. Check out the tag v{installed} of hazelcast-python-client, and name its"
            " folder: make compat CLIENT_TESTS=path/to/hazelcast-python-client."
        )
    if f'"{installed}"' not in (client / "hazelcast" / "__init__.py").read_text():
        return f"{client} is another release than the installed {installed}: check out its tag v{installed}."
    return None


def main() -> int:
    """0 when every difference has a named reason, 1 when one has none, 2 when something is missing."""
    client, *chosen = sys.argv[1:] or [""]
    missing = check(Path(client).resolve()) if client else "Name the client's sources: make compat CLIENT_TESTS=FOLDER."
    if missing:
        print(missing, file=sys.stderr)
        return 2
    if os.environ.get("AGAIN"):
        shutil.rmtree(FOUND, ignore_errors=True)
    jars.bring()
    source = Path(client).resolve()
    for module in modules(source):
        if not chosen or any(part in module for part in chosen):
            for kind in KINDS:
                print(kind, module, flush=True)
                run(source, kind, module)
    every = [report(KINDS[0], module).stem for module in modules(source)]
    return table.write(FOUND, ROOT / "docs" / "compatibility.md", version("hazelcast-python-client"), every)


if __name__ == "__main__":
    sys.exit(main())
