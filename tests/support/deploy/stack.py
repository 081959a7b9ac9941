"""The services of docker-compose.yml as processes of a box: each by its exact command line, as its user, with its mounts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.repository.source import ROOT
from tests.support.deploy import compose
from tests.support.deploy.box import Box, Mounted, Way

TIMEOUT_S = compose.seconds("5m")  # the start_period of the health checks
VOLUMES = "/volumes/"
BETWEEN_S = 0.5
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROMETHEUS = ROOT / ".cache" / "prometheus" / "usr" / "bin"
# What the images of others begin with, and where such a program may be here.
ENTRYPOINTS = {"chrislusf/seaweedfs": "weed", "prom/prometheus": "prometheus"}
PROGRAMS = f"{ROOT / '.venv' / 'bin'}:{Path(sys.executable).parent}:{PROMETHEUS}:{PATH}"


def found_program(name: str) -> str | None:
    """The path of a program that may be here, or None."""
    return shutil.which(name, path=PROGRAMS)


def program(image: str) -> str | None:
    """What runs here instead of somebody else's image, or None where it is not there."""
    name = ENTRYPOINTS.get(image.partition(":")[0])
    return name if name is not None and found_program(name) else None


def addresses(names: list[str]) -> dict[str, str]:
    """A private address for each name."""
    return {name: f"10.42.0.{number}" for number, name in enumerate(names, 1)}


class Service:
    """A process of the stack: what starts it, how it runs, and what asks whether it is ready."""

    def __init__(self, name: str, words: list[str], folder: Path) -> None:
        self.name = name
        self.words = words
        self.log = folder / f"{name}.log"
        self.way = Way(name)
        self.probe: list[str] = []
        self.grace = compose.seconds("10s")
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of_file(cls, name: str, found: Mapping[str, Any], folder: Path) -> Service:
        """A service as docker-compose.yml has it."""
        first = [] if "build" in found else [str(program(found["image"]))]
        first += ["env", f"--chdir={found['working_dir']}"] if "working_dir" in found else []
        service = cls(name, [*first, *found.get("entrypoint", []), *found.get("command", [])], folder)
        service.grace = compose.seconds(found.get("stop_grace_period", "10s"))
        service.probe = found["healthcheck"]["test"][1:] if "healthcheck" in found else []
        service.way = way_of(name, found)
        return service

    @property
    def volumes(self) -> list[str]:
        """The names of its volumes."""
        return [mount.source.removeprefix(VOLUMES) for mount in self.way.mounts if mount.source.startswith(VOLUMES)]


def way_of(name: str, found: Mapping[str, Any]) -> Way:
    """How a service runs: what its image says, and what the file says beyond."""
    built = compose.image(found["build"]["target"]) if "build" in found else compose.Image({"PATH": PROGRAMS}, None)
    mounts = [
        Mounted(
            f"{VOLUMES}{mount.source}" if mount.is_volume else str(ROOT / mount.source), mount.target, mount.read_only
        )
        for mount in compose.mounts(found)
    ]
    return Way(
        name,
        {**built.environment, **found.get("environment", {})},
        built.user,
        mounts,
        found.get("tmpfs", []),
        found.get("read_only", False),
        found.get("ulimits", {}).get("nofile", {}).get("soft"),
    )


class Stack:
    """The services that can run here, in a box with a network of its own."""

    def __init__(self, layer: Path, folder: Path, variables: Mapping[str, str]) -> None:
        loaded = compose.load(variables)
        found = loaded["services"]
        self.left_out = [name for name, one in found.items() if "build" not in one and program(one["image"]) is None]
        self.services = {
            name: Service.of_file(name, one, folder) for name, one in found.items() if name not in self.left_out
        }
        for name, secret in loaded.get("secrets", {}).items():
            (folder / name).write_text(variables[secret["environment"]])
            for service in (self.services[one] for one, how in found.items() if name in how.get("secrets", [])):
                service.way = service.way._replace(
                    mounts=[*service.way.mounts, Mounted(str(folder / name), f"/run/secrets/{name}", True)]
                )
        self._after = {name: list(one.get("depends_on", {})) for name, one in found.items()}
        self._running: list[subprocess.Popen[bytes]] = []
        self.box = Box(layer, hosts=addresses(list(found)))
        for service in self.services.values():
            for volume in service.volumes:
                self.make_volume(volume, service.way.user)

    def make_volume(self, name: str, user: str | None) -> None:
        """An empty volume, owned by whom the folder in the image belongs to."""
        place = self.box.root_of(f"{VOLUMES}{name}")
        place.mkdir(parents=True)
        if user is not None:
            os.chown(place, *map(int, user.split(":")))

    def start(self, *names: str) -> None:
        """Start these services, each after what it depends on; returns when all are healthy by their own checks."""
        for name in names:
            for other in self._after[name]:
                self.wait(self.services[other])
            self._spawn(self.services[name])
        for name in names:
            self.wait(self.services[name])

    def run(self, service: Service) -> None:
        """Start a service that the file does not have; returns when it is ready."""
        self._spawn(service)
        self.wait(service)

    def run_once(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a service of the file with these arguments to its end, as `docker compose run` does."""
        for other in self._after[name]:
            self.wait(self.services[other])
        service = self.services[name]
        return self.box.run([*service.words, *arguments], service.way)

    def execute(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command where a service of the file runs, as `docker compose exec` does."""
        return self.box.run(words, self.services[name].way)

    def _spawn(self, service: Service) -> None:
        service.process = self.box.spawn(service.words, service.way, service.log)
        self._running.append(service.process)

    def wait(self, service: Service) -> None:
        """Return when the service is healthy; fail with what it said when it ends, or never is."""
        deadline = time.monotonic() + TIMEOUT_S
        while (found := self.box.run(service.probe, service.way)).returncode != 0:
            if self._ended(service) or time.monotonic() > deadline:
                said = service.log.read_text(errors="replace")[-4000:]
                raise AssertionError(f"{service.name} is not healthy: {found.stdout}{found.stderr}\n{said}")

    @staticmethod
    def _ended(service: Service) -> bool:
        assert service.process is not None
        try:
            service.process.wait(BETWEEN_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, name: str) -> int:
        """SIGTERM to a service of the file, and what it ended with."""
        return self.end(self.services[name])

    def end(self, service: Service) -> int:
        """SIGTERM, and what it ended with; `TimeoutExpired` when its period of grace was not enough."""
        assert service.process is not None
        service.process.terminate()
        return service.process.wait(service.grace)

    def close(self) -> None:
        """End what still runs, and the box."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()
        self.box.close()
