"""The lines of docs/content.md give what their comments say."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "content.md").read_text()
BLOCKS = [
    lines for lines in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "connect(" not in lines
]
"""Those without a cluster: `tests/integration/content/test_cluster.py` has the others."""
SAID = re.compile(r"^ +(\w+) = .*?# ((?:b'|['\[{\d])[^;\n]*)", re.MULTILINE)


@pytest.mark.parametrize("lines", BLOCKS)
def test_the_lines_of_the_page_run(lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec("import kvwal\n" + lines, names)
    said = SAID.findall(lines)
    assert len(said) >= 2
    assert [(name, names[name]) for name, _ in said] == [(name, ast.literal_eval(value)) for name, value in said]
