"""Each line that a page types to `docker compose` is run in real containers, by `make compose-test`."""

from __future__ import annotations

import ast

from tests.compose.pages import COMMAND, line, lines
from tests.repository.source import ROOT

RUN = ROOT / "tests" / "compose" / "test_containers.py"


def test_every_line_to_compose_is_run_in_containers_and_stands_on_a_page() -> None:
    constants = [node.value for node in ast.walk(ast.parse(RUN.read_text())) if isinstance(node, ast.Constant)]
    typed = {line(text) for text in constants if isinstance(text, str) and text.startswith(COMMAND)}
    assert typed == lines()
