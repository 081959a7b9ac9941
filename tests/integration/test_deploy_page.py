"""docs/cluster.md, typed as it is written: a node by hand, a client, a kill, and what the logs and the archive then hold."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.house.test_cli_docs import Example, examples, pattern
from tests.house.test_docs import SESSION
from tests.support.cluster import free_port, needs_hazelcast

READY = "is ready at"


@pytest.fixture
def page() -> str:
    """The page, with ports that are free here."""
    text = (ROOT / "docs" / "cluster.md").read_text()
    for port in (5701, 8701):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
    return text


class Typed:
    """A folder in which lines of the page are typed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TERM": "dumb"}

    def run(self, *words: str, text: str | None = None) -> str:
        ran = subprocess.run(
            words, cwd=self.folder, env=self.environment, input=text, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return "\n".join(line.rstrip() for line in ran.stdout.splitlines())

    def node(self, example: Example) -> subprocess.Popen[str]:
        """Start the node of the page; returns when it prints what the page shows."""
        with (self.folder / "node.log").open("a") as log:
            process = subprocess.Popen(
                shlex.split(example.typed),
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        assert process.stdout.readline() == example.printed, (self.folder / "node.log").read_text()
        return process


def shown(script: str) -> list[str]:
    """What the comments behind a script's prints say that it prints."""
    return re.findall(r"^print\(.*#\s(.+)$", script, re.MULTILINE)


@needs_hazelcast
def test_the_page_of_the_cluster_does_what_it_says(page: str, tmp_path: Path) -> None:
    start, *others = examples(page)
    (script,) = SESSION.findall(page)
    typed = Typed(tmp_path)
    process = typed.node(start)
    try:
        assert typed.run(sys.executable, "-", text=script).splitlines() == shown(script)
        process.kill()
        process.wait()
        process = typed.node(start)
        before, after = [[one for one in others if ("again" in one.typed) is late] for late in (False, True)]
        for example in before:
            assert re.fullmatch(pattern(example.printed), typed.run(*shlex.split(example.typed))), example.typed
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        for example in after:
            assert re.fullmatch(pattern(example.printed), typed.run(*shlex.split(example.typed))), example.typed
    finally:
        process.kill()
        process.wait()
