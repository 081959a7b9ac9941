"""docker-compose.yml as compose reads it, and deploy/Dockerfile as far as its images say how their programs run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from tests.repository.source import ROOT

FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / ".env.example"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<how>[-?])(?P<what>[^}]*))?\}")
UNITS = {"s": 1, "m": 60, "h": 3600}


def example() -> dict[str, str]:
    """The variables of .env.example, as they stand there."""
    lines = [line for line in EXAMPLE.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def filled() -> dict[str, str]:
    """The variables of .env.example, once somebody has written secrets into it."""
    return {name: value or f"a-secret-for-{name.lower()}" for name, value in example().items()}


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """`text` with `${NAME}`, `${NAME:-default}` and `${NAME:?message}` replaced; `KeyError` for what is to be set and is not."""

    def value(found: re.Match[str]) -> str:
        given = variables.get(found["name"])
        if given:
            return given
        if found["how"] == "-":
            return found["what"]
        raise KeyError(found["name"])

    return VARIABLE.sub(value, text)


def load(variables: Mapping[str, str]) -> dict[str, Any]:
    """The file with its anchors followed and its variables replaced."""

    def within(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: within(value) for key, value in node.items()}
        if isinstance(node, list):
            return [within(value) for value in node]
        return interpolate(node, variables) if isinstance(node, str) else node

    found: dict[str, Any] = within(yaml.safe_load(FILE.read_text()))
    return found


def seconds(duration: str) -> float:
    """A duration of compose, as `1m30s`."""
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)([smh])", duration))


class Mount(NamedTuple):
    """What a service sees at `target`: a volume by its name, or a path of the repository."""

    source: str
    target: str
    read_only: bool

    @property
    def is_volume(self) -> bool:
        return not self.source.startswith(".")


def mounts(service: Mapping[str, Any]) -> Iterator[Mount]:
    """The mounts of a service; the file writes them short."""
    for line in service.get("volumes", []):
        source, target, *more = line.split(":")
        yield Mount(source, target, "ro" in more)


class Image(NamedTuple):
    """What one target of the Dockerfile adds to the commands that run in it."""

    environment: dict[str, str]
    user: str | None
    check: Mapping[str, str] = MappingProxyType({})
    """The options of its health check, named as compose names them. A service inherits those that it does not set."""


def image(target: str) -> Image:
    """The environment, the user and the check of a target, with those of the stages it is made from."""
    stages = {}
    base = Image({"PATH": "/usr/local/bin:/usr/bin:/bin"}, None)
    for line in re.sub(r"\\\n", " ", DOCKERFILE.read_text()).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            parent, _, name = rest.partition(" AS ")
            stages[name] = current = stages.get(parent, base)
            current = stages[name] = current._replace(environment=dict(current.environment))
        elif word == "ENV":
            pairs = dict(part.split("=", 1) for part in shlex.split(rest))
            known = current.environment
            known.update({key: value.replace("$PATH", known["PATH"]) for key, value in pairs.items()})
        elif word == "USER":
            current = stages[name] = current._replace(user=rest.strip())
        elif word == "HEALTHCHECK":
            options = re.findall(r"--([\w-]+)=(\S+)", rest.partition(" CMD ")[0])
            current = stages[name] = current._replace(check={key.replace("-", "_"): value for key, value in options})
    return stages[target]


def context() -> Iterator[Path]:
    """The files that .dockerignore lets into the build, as they stand here."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = [line[1:] for line in lines if line.startswith("!")]
    left_out = [line.removeprefix("**/") for line in lines if (line and line[0] not in "!#*") or line.startswith("**/")]
    for name in let_in:
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            inner = path.relative_to(ROOT)
            if path.is_file() and not any(part in left_out for part in (*inner.parts, str(inner))):
                yield inner
