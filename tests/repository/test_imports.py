"""The import graph of the two packages has no circle; imports inside functions and under TYPE_CHECKING count."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp

from tests.repository.source import PACKAGES

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
