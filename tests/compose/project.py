"""The project of docker-compose.yml in an engine: its commands, typed as the pages type them, under a name of its own."""

from __future__ import annotations

import json
import os
import resource
import secrets
import shlex
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.compose import pages
from tests.compose.engine import Engine
from tests.repository.source import ROOT
from tests.support.deploy import compose
from tests.support.ports import free_port

NAME = "kvwal-compose-test"
OVERRIDE = ROOT / "tests" / "compose" / "override.yml"
KVWAL = ("--cluster", "kvwal", "--namespace", "spark")
CLUSTER = "kvwal://node-1:5701,node-2:5701,node-3:5701"


class Project:
    """The services of docker-compose.yml. `close` removes everything of them but the images."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        own = {
            "GRAFANA_PORT": free_port(), "PROMETHEUS_PORT": free_port(),
            "KVWAL_TEST_FILES": min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        }  # fmt: skip
        values = {name: value or secrets.token_hex(24) for name, value in compose.example().items()} | own
        self.variables = folder / "variables"
        self.variables.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        # Of the engine's own images only: one that can pull takes those that the file pins.
        files = ["--file", str(compose.FILE), *(["--file", str(OVERRIDE)] if engine.own else [])]
        self._compose = ["compose", "--project-name", NAME, "--env-file", str(self.variables), *files]

    def compose(self, *words: str, checked: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """`docker compose WORDS`. `variables` go before those of the project's own file."""
        engine = Engine({**self._engine.environment, **variables}, own=self._engine.own) if variables else self._engine
        return engine.run(*self._compose, *words, checked=checked)

    def said(self, *words: str) -> str:
        """What a compose command prints on standard output."""
        return self.compose(*words).stdout

    def type(self, beginning: str, *options: str, **replaced: str) -> str:
        """What the line of the pages that begins so prints, with `options` and its words `replaced`. It has to end with 0."""
        return self.ran(beginning, *options, **replaced, checked=True).stdout

    def ran(
        self, beginning: str, *options: str, checked: bool = False, **replaced: str
    ) -> subprocess.CompletedProcess[str]:
        """The same, with its exit code."""
        return self.compose(*_words(beginning, options, replaced), checked=checked)

    def follow(self, beginning: str) -> str:
        """The first line that is printed by one that goes on until it is ended."""
        words = ["docker", *self._compose, *_words(beginning, (), {})]
        with subprocess.Popen(
            words, env=self._engine.environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as following:
            assert following.stdout is not None
            first = following.stdout.readline()
            os.killpg(following.pid, signal.SIGTERM)  # the command is a program of its own below docker
        return first

    def kvwal(self, *words: str, service: str = "recorder") -> subprocess.CompletedProcess[str]:
        """A command line of kvwal where a service runs."""
        return self.compose("exec", "--no-TTY", service, "kvwal", *words, *KVWAL, checked=False)

    def standard_error(self, service: str) -> str:
        """What a service has written there, as the engine has it: compose adds characters, and mixes both outputs."""
        container = self.said("ps", "--all", "--quiet", service).strip()
        return self._engine.run("logs", container).stderr

    def rows(self, sql: str) -> list[str]:
        """The rows of a statement on the cluster, as lines of CSV."""
        ran = self.kvwal("query", CLUSTER, sql, "--format", "csv")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()[1:]

    def states(self) -> dict[str, str]:
        """Each service that has a container, with the state of its health; without a check: whether it runs."""
        lines = self.said("ps", "--all", "--format", "json").splitlines()
        found: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return {one["Service"]: one["Health"] or one["State"] for one in found}

    def remains(self) -> list[str]:
        """The names of its containers, volumes and networks that are there."""
        label = f"label=com.docker.compose.project={NAME}"
        kinds = (("ps", "--all", "--format", "{{.Names}}"), ("volume", "ls", "--format", "{{.Name}}"))
        kinds = (*kinds, ("network", "ls", "--format", "{{.Name}}"))
        return [line for kind in kinds for line in self._engine.run(*kind, "--filter", label).stdout.splitlines()]

    def volumes(self) -> set[str]:
        """The names of all volumes of the engine, those without a name of their own included."""
        return set(self._engine.run("volume", "ls", "--quiet").stdout.split())

    def lose_volume(self, service: str) -> None:
        """Kill a service and remove its container and its volume."""
        self.compose("kill", service)
        self.compose("rm", "--force", service)
        self._engine.run("volume", "rm", f"{NAME}_{service}")

    def close(self) -> None:
        """Remove containers, volumes and networks."""
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "5", checked=False)


def _words(beginning: str, options: tuple[str, ...], replaced: Mapping[str, str]) -> list[str]:
    """The words after `docker compose` of the line of the pages that begins so."""
    line = pages.line(beginning)
    for name, value in replaced.items():
        line = line.replace(name, value)
    verb, *words = shlex.split(line.removeprefix(pages.COMMAND))
    return [verb, *(["--no-TTY"] if verb in {"exec", "run"} else []), *options, *words]
