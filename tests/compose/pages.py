"""What the pages type to `docker compose`. The test in containers runs each of these lines, as it stands on its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.repository.source import ROOT

PAGES = ("docs/cluster.md", "docs/cluster-runbook.md", "docs/spark.md")
COMMAND = "docker compose "
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(docker compose [^`]+)`")
_LOOP = re.compile(r"for \w+ in [\w ]+; do (?P<body>.+); done")
_COMMENT = re.compile(r"\s+# .*")


def lines() -> set[str]:
    """Each line, without its comment. Of a loop it is the body."""
    return {line for page in PAGES for line in _of(ROOT / page)}


def line(beginning: str) -> str:
    """The one line that begins so."""
    known = lines()
    (found,) = {beginning} & known or {one for one in known if one.startswith(beginning)}
    return found


def _of(page: Path) -> Iterator[str]:
    text = page.read_text()
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            typed = _COMMENT.sub("", line.removeprefix("$ "))
            if (loop := _LOOP.fullmatch(typed)) is not None:
                typed = loop["body"]
            if typed.startswith(COMMAND):
                yield typed
    # A sentence names a command (`docker compose stop`), or types a line.
    yield from (line for line in _INLINE.findall(_BLOCK.sub("", text)) if len(line.split()) > 3)
