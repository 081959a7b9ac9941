"""docs/operations.md has every error, every finding of `doctor` and every line of the log, and what it types works.

A quoted line of the page is a sentence of the source in which `…` stands for what differs. Its console blocks are one session
in an empty folder; commands that are not kvwal's are run by bash.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvwal import errors
from tests.repository.pages.test_cli_docs import examples, pattern
from tests.repository.source import ROOT, modules, parse
from tests.support.cli import kvwal

PAGE = ROOT / "docs" / "operations.md"
ERRORS = re.compile(r"^## Errors\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"…+")


def sentence(node: ast.AST) -> str | None:
    """A string of the source, with `…` for each value that is put into it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
        return PLACE.sub("…", "".join(str(part) for part in parts))
    return None


def sentences() -> set[str]:
    return {text for module in modules() for node in ast.walk(module.tree) if (text := sentence(node)) is not None}


def test_every_error_has_a_section_and_every_section_an_error() -> None:
    found = ERRORS.search(PAGE.read_text())
    assert found is not None
    sections = re.findall(r"^### (.+)$", found[1], re.MULTILINE)
    named = {
        name for name in errors.__all__ if inspect.isclass(getattr(errors, name)) and name not in ("Kind", "KvwalError")
    }
    assert len(sections) == len(set(sections))
    assert set(sections) == named


def test_what_is_quoted_is_said() -> None:
    quoted = re.findall(r"^> (.+)$", PAGE.read_text(), re.MULTILINE)
    said = sentences()
    assert quoted
    assert not [line for line in quoted if not any(line in text for text in said)]


DOCTOR = (
    "kvwal/cli/commands/doctor.py", "kvwal/cli/survey.py", "kvwal/location/diagnose.py", "kvwal/scrub/diagnose.py",
)  # fmt: skip


def findings() -> Iterator[str]:
    """What `doctor` may find besides that all is well."""
    for node in (node for path in DOCTOR for node in ast.walk(parse(path).tree)):
        if isinstance(node, ast.FunctionDef):
            texts = [
                (target.id, text)
                for statement in ast.walk(node)
                if isinstance(statement, ast.Assign)
                and isinstance(target := statement.targets[0], ast.Name)
                and (text := sentence(statement.value)) is not None
            ]
            for call in ast.walk(node):
                yield from finding(call, texts)


def finding(call: ast.AST, texts: list[tuple[str, str]]) -> Iterator[str]:
    """What a call of `Finding` may say, where that is a sentence of the source."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding"):
        return
    level, _, text, *_ = call.args
    if isinstance(level, ast.Name) and level.id == "OK":
        return
    if isinstance(text, ast.Name):
        yield from (said for name, said in texts if name == text.id)
    elif (said := sentence(text)) is not None:
        yield said


def test_every_finding_of_doctor_is_explained() -> None:
    page = PAGE.read_text()
    found = set(findings())
    assert len(found) > 20
    assert not [text for text in found if f"| {text} |" not in page]


def log_lines() -> Iterator[str]:
    """The first argument of every warning and error of a logger, and of every owner of errors that only logs them, but for the
    recorder's, which speaks in Spark's log.
    """
    for module in modules():
        if module.path.startswith("kvwal/spark/"):
            continue
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "logged"
                and (text := sentence(node.args[0])) is not None
            ):
                yield text
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("warning", "error")
            ):
                logger = ast.unparse(node.func.value)
                if logger.endswith("logger") and (text := sentence(node.args[0])) is not None:
                    yield text


def test_every_line_of_the_log_is_explained() -> None:
    page = PAGE.read_text()
    found = set(log_lines())
    assert len(found) > 3
    assert not [text for text in found if f"| `{text}` |" not in page]


def test_what_the_page_types_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")
    code = 0
    for example in examples(PAGE.read_text()):
        if example.typed == "echo $?":
            assert example.printed.strip() == str(code)
            continue
        code, printed = typed(example.typed)
        assert re.fullmatch(pattern(example.printed), printed), (
            f"$ {example.typed}\n{printed}\n--- the page says\n{example.printed}"
        )


def typed(line: str) -> tuple[int, str]:
    """The exit code of a line, and what it printed."""
    program, *arguments = shlex.split(line)
    if program == "kvwal":
        ran = kvwal(*arguments)
        code, printed = ran.code, ran.out + ran.err
    else:
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        code, printed = done.returncode, done.stdout + done.stderr
    return code, "\n".join(part.rstrip() for part in printed.splitlines()).strip("\n")
