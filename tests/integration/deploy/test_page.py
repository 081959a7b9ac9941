"""docs/cluster.md and the lost disk of docs/cluster-runbook.md, as typed: a node, a client, a kill, a restore."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.pages.test_cli_docs import Example, examples, pattern
from tests.repository.pages.test_docs import SESSION
from tests.repository.source import ROOT
from tests.support.cluster.nodes import needs_hazelcast
from tests.support.ports import free_port

READY = "is ready at"


@pytest.fixture
def page() -> str:
    """The quick start and the runbook after it, with ports that are free here."""
    text = "\n".join((ROOT / "docs" / name).read_text() for name in ("cluster.md", "cluster-runbook.md"))
    for port in (5701, 5711, 5712, 5713, 8701):
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

    def spawn(self, example: Example) -> subprocess.Popen[str]:
        """Start a node of the page."""
        with (self.folder / "node.log").open("a") as log:
            return subprocess.Popen(
                shlex.split(example.typed),
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def node(self, example: Example) -> subprocess.Popen[str]:
        """The same; returns when it prints what the page shows."""
        process = self.spawn(example)
        self.wait_ready(process, example)
        return process

    def wait_ready(self, process: subprocess.Popen[str], example: Example) -> None:
        """Return when it prints what the page shows."""
        assert process.stdout is not None
        assert process.stdout.readline() == example.printed, (self.folder / "node.log").read_text()


def section(page: str, title: str) -> str:
    """What stands under a heading."""
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def shown(script: str) -> list[str]:
    """What the comments after a script's prints say that it prints."""
    return re.findall(r"^\s*print\(.*#\s(.+)$", script, re.MULTILINE)


@needs_hazelcast
@pytest.mark.long
def test_the_page_of_the_cluster_does_what_it_says(page: str, tmp_path: Path) -> None:
    start, *others = examples(page.replace(section(page, "Three nodes by hand"), ""))
    (script,) = SESSION.findall(section(page, "A node by hand"))
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


@needs_hazelcast
@pytest.mark.long
def test_three_nodes_by_hand_though_all_are_killed(page: str, tmp_path: Path) -> None:
    three = list(examples(section(page, "Three nodes by hand")))
    (script,) = SESSION.findall(section(page, "Three nodes by hand"))
    look = script[: script.index("    jobs[")] + '    print(jobs["job-1"])\n'
    typed = Typed(tmp_path)
    running: list[subprocess.Popen[str]] = []
    try:
        for text in (script, look):
            running = [typed.spawn(example) for example in three]
            for process, example in zip(running, three, strict=True):
                typed.wait_ready(process, example)
            told = typed.run(sys.executable, "-", text=text).splitlines()
            assert told == shown(script) if text is script else told == shown(script)[-1:]
            for process in running:
                process.kill()
                process.wait()
    finally:
        for process in running:
            process.kill()
            process.wait()
