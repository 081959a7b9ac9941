"""The import graph of the two packages has no circle, and no module of a caller's folder is taken for one of ours.

Imports inside functions and under TYPE_CHECKING count.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

from tests.repository.source import PACKAGES, ROOT

# Imports that do not count, as (importer, imported), each with its reason.
ALLOWED: dict[tuple[str, str], str] = {}


def imports() -> dict[str, set[str]]:
    """Every module, with the modules of the two packages that it imports."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of imports, each module before the module that it imports; empty if the graph has no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_modules_import_one_another_in_no_circle() -> None:
    graph = imports()
    assert graph["kvwal.cli.app"], "the graph is empty"
    assert not circle(
        {module: {name for name in names if (module, name) not in ALLOWED} for module, names in graph.items()}
    )


def test_every_allowed_import_is_there() -> None:
    graph = imports()
    assert not [pair for pair in ALLOWED if pair[1] not in graph.get(pair[0], set())], (
        "no longer needed: take it off the list"
    )


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) in (
        ["a", "b", "c", "a"],
        ["b", "c", "a", "b"],
        ["c", "a", "b", "c"],
    )
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_a_module_archive_of_a_project_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "archive.py").write_text("raise SystemExit('the module of the project was run')\n")
    program = "import kvwal; notes = kvwal.open('data').map('notes'); notes['a'] = 1; print(notes['a'])"
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("1\n", 0), ran.stderr


def test_the_wheel_installs_only_names_that_are_ours() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert [Path(package).name for package in wheel["packages"]] == list(PACKAGES)
    assert all(name.startswith("kvwal") for name in PACKAGES)
