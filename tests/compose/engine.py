"""A container engine: the one that runs on this machine, or Debian's, unpacked below .cache and started for one test run.

What an engine of its own started or changed is ended and put back: the daemons by their process ids, the bridge, the chains of
the packet filter, and the kernel's switch for forwarding.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.compose import debian
from tests.repository.source import ROOT

FOLDER = ROOT / ".cache" / "compose"
ENGINE_SUITE = "trixie"
"""The oldest Debian that has a Compose which reads docker-compose.yml. Its programs run on the release before, too."""
ENGINE = ("docker" + ".io", "docker-cli", "docker-buildx", "docker-compose")  # a package, and no registry
UNDER = (
    "containerd", "runc", "tini", "debootstrap", "busybox-static", "prometheus",
    "iptables", "libnftnl11", "libmnl0", "libip4tc2", "libip6tc2", "libxtables12",
    "libnfnetlink0", "libnetfilter-conntrack3",
)  # fmt: skip
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
SHIMS = Path("/run/containerd")
"""Where containerd keeps the sockets of its containers. Its own state folder is another one."""
STARTS_WITHIN_S = 60


class Engine:
    """A container engine. `own` says that it was started here: its images come from this machine, too."""

    def __init__(self, environment: Mapping[str, str], *, own: bool) -> None:
        self.environment = dict(environment)
        self.own = own

    def run(self, *words: str, checked: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `docker WORDS`; with `checked` an error if it fails."""
        ran = subprocess.run(
            ["docker", *words], env=self.environment, cwd=ROOT, input=text, capture_output=True, text=True, check=False
        )
        if checked and ran.returncode != 0:
            raise RuntimeError(
                f"docker {' '.join(words)} failed ({ran.returncode}):\n{ran.stdout[-4000:]}{ran.stderr[-4000:]}"
            )
        return ran

    def close(self) -> None:
        """An engine that was here before goes on."""


def found() -> Engine | None:
    """The engine that runs on this machine with Compose, or None."""
    engine = Engine(os.environ, own=False)
    if shutil.which("docker") is None:
        return None
    here = (
        engine.run("info", checked=False).returncode == 0
        and engine.run("compose", "version", checked=False).returncode == 0
    )
    return engine if here else None


def is_set_up() -> bool:
    """Whether an engine of its own is unpacked."""
    return (FOLDER / "engine" / "usr" / "sbin" / "dockerd").exists()


def missing() -> str | None:
    """Why no engine can run here, or None."""
    if found() is not None:
        return None
    if os.geteuid() != 0:
        return "no container engine runs here, and only root may start one"
    if not is_set_up() and not debian.mirror():
        return "no container engine runs here, and one can be set up on Debian only"
    return None


def start() -> Engine:
    """The engine that runs here, or one of its own, which the first call sets up."""
    return found() or OwnEngine()


class OwnEngine(Engine):
    """Debian's engine with its state below .cache, started by the constructor."""

    def __init__(self) -> None:
        set_up()
        # Names of sockets must be short, wherever the repository is.
        self._run_folder = run = Path(tempfile.mkdtemp(prefix="kvwal-engine-"))
        super().__init__(_environment(run), own=True)
        self._forwarding = FORWARDING.read_text()
        self._shims_were_there = SHIMS.exists()
        self._daemons: list[subprocess.Popen[bytes]] = []
        state = FOLDER / "state"
        try:
            self._spawn(
                "containerd", "--root", state / "containerd", "--state", run / "containerd",
                "--address", run / "containerd.sock",
            )  # fmt: skip
            self._until((run / "containerd.sock").exists)
            self._spawn(
                "dockerd", "--containerd", run / "containerd.sock", "--data-root", state / "docker",
                "--exec-root", run / "docker",
                "--host", f"unix://{run / 'docker.sock'}", "--pidfile", run / "docker.pid",
                "--userland-proxy-path", FOLDER / "engine" / "usr" / "sbin" / "docker-proxy",
                "--init-path", FOLDER / "under" / "usr" / "bin" / "tini-static",
            )  # fmt: skip
            self._until(lambda: self.run("info", checked=False).returncode == 0)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the daemons, the engine first, and put the network back."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait()
        _clear_network(self.environment)
        FORWARDING.write_text(self._forwarding)
        shutil.rmtree(self._run_folder, ignore_errors=True)
        if not self._shims_were_there:
            shutil.rmtree(SHIMS, ignore_errors=True)

    def _spawn(self, *words: object) -> None:
        with (FOLDER / f"{words[0]}.log").open("wb") as log:
            self._daemons.append(
                subprocess.Popen(
                    list(map(str, words)), env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,
                )
            )  # fmt: skip

    def _until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not ready():
            ended = [daemon for daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "".join(log.read_text(errors="replace")[-3000:] for log in sorted(FOLDER.glob("*.log")))
                raise RuntimeError(f"the container engine did not start:\n{logs}")
            time.sleep(0.2)


def set_up() -> None:
    """Unpack the engine and what it stands on, once."""
    if is_set_up():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    under, engine = FOLDER / "under", FOLDER / "engine"
    debian.unpack(under, debian.codename(), UNDER)
    links = under / "links"
    links.mkdir(exist_ok=True)
    for name in ("iptables", "ip6tables", "iptables-save", "iptables-restore", "ip6tables-save", "ip6tables-restore"):
        (links / name).unlink(missing_ok=True)
        (links / name).symlink_to(under / "usr" / "sbin" / "xtables-nft-multi")
    config = FOLDER / "config"
    config.mkdir(exist_ok=True)
    plugins = engine / "usr" / "libexec" / "docker" / "cli-plugins"
    (config / "config.json").write_text(json.dumps({"cliPluginsExtraDirs": [str(plugins)]}))
    stage = FOLDER / "engine.partial"
    shutil.rmtree(stage, ignore_errors=True)
    debian.unpack(stage, ENGINE_SUITE, ENGINE)
    stage.rename(engine)


def _environment(run: Path) -> dict[str, str]:
    under = FOLDER / "under"
    libraries = under / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    folders: Sequence[Path] = (
        under / "links", FOLDER / "engine" / "usr" / "bin", FOLDER / "engine" / "usr" / "sbin",
        under / "usr" / "bin", under / "usr" / "sbin", under / "sbin", under / "bin",
    )  # fmt: skip
    return {
        **os.environ,
        "PATH": ":".join([*map(str, folders), os.environ["PATH"]]),
        "LD_LIBRARY_PATH": str(libraries),
        "XTABLES_LIBDIR": str(libraries / "xtables"),
        "DOCKER_CONFIG": str(FOLDER / "config"),
        "DOCKER_HOST": f"unix://{run / 'docker.sock'}",
    }


def _clear_network(environment: Mapping[str, str]) -> None:
    """Remove the bridge of the engine and its chains of the packet filter."""
    subprocess.run(["ip", "link", "delete", "docker0"], capture_output=True, check=False)
    for program in ("iptables", "ip6tables"):
        for table in ("nat", "filter"):
            saved = subprocess.run(
                [f"{program}-save", "-t", table], env=environment, capture_output=True, text=True, check=False
            ).stdout
            kept = [line for line in saved.splitlines() if "DOCKER" not in line]
            if len(kept) < len(saved.splitlines()):
                subprocess.run(
                    [f"{program}-restore"], env=environment, input="\n".join(kept) + "\n", text=True, capture_output=True,
                    check=False,
                )  # fmt: skip
