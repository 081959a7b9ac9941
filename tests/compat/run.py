"""`make compat CLIENT_TESTS=FOLDER`: runs the client's tests on a plain member and on a node, and writes docs/compatibility.md.

FOLDER is a checkout of the client's sources, of the release that is installed here: the packages of the client carry no tests.
A module that was run to its end is not run again: `make compat AGAIN=1` forgets all. ARGS chooses modules: parts of their paths.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from compat import controller, jars, table

ROOT = Path(__file__).resolve().parent.parent.parent
FOUND = ROOT / ".cache" / "compat" / "found"
KINDS = ("plain", "node")
TIMEOUT_S = 120
"""For one test: a client waits for ever for members that listen elsewhere than its test had asked for in XML."""
_COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
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


def run(client: Path, kind: str, module: str) -> str | None:
    """Run a module on members of a kind, and keep its report. A run that ended abnormally has none: its fault is returned."""
    done = report(kind, module)
    if done.exists():
        return None
    done.parent.mkdir(parents=True, exist_ok=True)
    begun, log = done.with_suffix(".begun"), done.with_suffix(".log")
    begun.unlink(missing_ok=True)
    begun.touch()
    path = os.pathsep.join([str(client), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    # Tracebacks are Python's own: pytest's form parses each source, which CPython 3.11 fails at in a deep stack of the client.
    ended = run_session(
        [sys.executable, "-m", "pytest", "-q", "-p", "compat.plugin", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir",
         str(client), "--tb=native", f"--timeout={TIMEOUT_S}", "--timeout-method=signal", module],
        client, {"PYTHONPATH": path, "COMPAT_MEMBER": kind, "COMPAT_REPORT": str(begun)}, log,
    )  # fmt: skip
    if ended not in _COMPLETE:
        return f"{module} on {kind} members: pytest ended with {ended}, and its tests do not count. {log} says more."
    begun.rename(done)
    return None


def run_session(command: list[str], folder: Path, environment: dict[str, str], log: Path) -> int:
    """Run a command in a session of its own, and kill what is left of the session when the command ends. Returns its exit code.

    Members that outlive their tests hold the ports that the next module needs. What the command prints is kept in `log`.
    """
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        # The ended process is not collected yet, so the number of its group cannot have passed to another one.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


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
    """0 when every difference has a named reason, 1 when one has none or a module was not run to its end, 2 when something is
    missing.
    """
    client, *chosen = sys.argv[1:] or [""]
    missing = check(Path(client).resolve()) if client else "Name the client's sources: make compat CLIENT_TESTS=FOLDER."
    if missing:
        print(missing, file=sys.stderr)
        return 2
    if os.environ.get("AGAIN"):
        shutil.rmtree(FOUND, ignore_errors=True)
    if taken := [port for port in controller.PORTS if not controller.is_free(port)]:
        print(
            f"Port {taken[0]} is in use. The tests start members there: end the process that listens.", file=sys.stderr
        )
        return 2
    # A terminated run ends like an interrupted one, and leaves no member behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    jars.bring()
    source = Path(client).resolve()
    faults = []
    for module in modules(source):
        if not chosen or any(part in module for part in chosen):
            for kind in KINDS:
                print(kind, module, flush=True)
                if fault := run(source, kind, module):
                    faults.append(fault)
    every = [report(KINDS[0], module).stem for module in modules(source)]
    code = table.write(FOUND, ROOT / "docs" / "compatibility.md", version("hazelcast-python-client"), every)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else code


if __name__ == "__main__":
    sys.exit(main())
