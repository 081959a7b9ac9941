"""The committed files, and the syntax trees of the two packages, for the repository tests."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("kvwal", "kvwal_archive")
"""What is imported."""

SOURCES = ("kvwal/", "archive/kvwal_archive/")
"""Where it stands."""


class Module(NamedTuple):
    """A Python file of one of the packages: its path from the root, its text and its tree."""

    path: str
    text: str
    tree: ast.Module


@cache
def committed(*suffixes: str) -> tuple[str, ...]:
    """Paths, from the root, of the committed files that still stand; with suffixes, only those."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()]
    return tuple(path for path in paths if not suffixes or path.endswith(suffixes))


@cache
def parse(path: str) -> Module:
    """One Python file, by its path from the root."""
    text = (ROOT / path).read_text()
    return Module(path, text, ast.parse(text))


@cache
def modules() -> tuple[Module, ...]:
    """Every committed module of the two packages."""
    return tuple(parse(path) for path in committed(".py") if path.startswith(SOURCES))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method in a tree, nested ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(node: ast.AST) -> list[str]:
    """The modules an import statement names; nothing for any other node."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []


def script(name: str) -> ModuleType:
    """A script of deploy/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "deploy" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
