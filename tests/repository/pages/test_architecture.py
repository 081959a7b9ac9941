"""docs/architecture.md: its layers are those of the import contracts, and every package and path that it names exists."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from kvwal.node.lifecycle import GATE, TRANSITIONS, Phase
from tests.repository.source import ROOT, SOURCES, committed, imported, modules

PAGE = (ROOT / "docs" / "architecture.md").read_text()
LAYERS = re.compile(r"^## The layers\n.*?^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `([\w/]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
PHASE = re.compile(r"^\| ([a-z ]+) \| [^|]+ \| [^|]+ \| ([a-z, ]*?) ?\| ([a-z, ]+) \|$", re.MULTILINE)
LIFE = re.compile(r"^## The life of a node\n.*?^```\n(.*?)^```(.*?)^## ", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?<![\w./-])(?:kvwal|archive|tests|benchmarks|deploy)(?:/\w+)+(?:\.\w+)?")
SOURCE = re.compile(r"`((?:kvwal|archive|deploy|benchmarks)/[\w/]+\.(?:py|java))`")


def contract() -> list[set[str]]:
    """The layers of the import contract, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    return [set(re.findall(r"[\w.]+", layer)) for layer in layers]


def packages() -> set[str]:
    """The folders of the two packages that are imported, but for kvwal's own top, as paths."""
    found = {path.rpartition("/")[0] for path in committed("/__init__.py") if path.startswith(SOURCES)}
    return found - {"kvwal"}


def exists(path: str) -> bool:
    """A path as pages write it: a file, a folder, or a module without its ending."""
    return (ROOT / path).exists() or (ROOT / f"{path}.py").is_file()


def test_the_layers_of_the_picture_are_those_of_the_contract() -> None:
    drawn = LAYERS.search(PAGE)
    assert drawn is not None
    assert [set(line.split(" | ")) for line in drawn[1].splitlines()] == contract()


def test_every_package_has_its_sentence() -> None:
    rows = {path: said for path, said, _ in ROW.findall(PAGE)}
    assert set(rows) == packages()
    assert not [path for path, said in rows.items() if not said.strip()]


@pytest.mark.parametrize("layer", [name for layer in contract() for name in sorted(layer)])
def test_every_layer_is_explained(layer: str) -> None:
    assert f"`{layer.replace('.', '/')}`" in PAGE


def test_every_path_on_the_page_exists() -> None:
    named = set(PATH.findall(PAGE))
    assert len(named) > 30
    assert not [path for path in named if not exists(path)]


def test_every_source_file_that_a_page_names_exists() -> None:
    pages = [page for page in committed(".md") if page != "CHANGELOG.md"]
    named = {(page, path) for page in pages for path in SOURCE.findall((ROOT / page).read_text())}
    assert named
    assert not [(page, path) for page, path in named if not (ROOT / path).is_file()]


@pytest.mark.parametrize(
    ("library", "touched"), [("jpype", "the JVM"), ("py4j", "Spark"), ("hazelcast", "the network")]
)
def test_a_package_that_loads_a_library_says_what_it_touches(library: str, touched: str) -> None:
    touches = {path: cell for path, _, cell in ROW.findall(PAGE)}
    users = {
        module.path.rpartition("/")[0]
        for module in modules()
        for node in ast.walk(module.tree)
        if any(name.split(".")[0] == library for name in imported(node))
    }
    assert users
    assert not [package for package in users if touched not in touches[package]]


ARCHIVE = re.compile(r"kvwal_archive\.(?!errors|layout)\w+")


def test_a_package_that_reads_the_archive_says_so() -> None:
    touches = {path: cell for path, _, cell in ROW.findall(PAGE) if path.startswith("kvwal/")}
    users = {
        module.path.rpartition("/")[0]
        for module in modules()
        for node in ast.walk(module.tree)
        if any(ARCHIVE.match(name) for name in imported(node))
    }
    said = {package for package, cell in touches.items() if "the archive" in cell.replace("the archiver", "")}
    assert users & touches.keys() <= said
    assert said <= users


def test_the_life_of_a_node_is_the_table_of_transitions() -> None:
    life = LIFE.search(PAGE)
    assert life is not None
    rows = {name: (following, gate) for name, following, gate in PHASE.findall(life[2]) if name != "phase"}
    assert list(rows) == [phase.value for phase in Phase]
    for phase in Phase:
        following, gate = rows[phase.value]
        assert following == ", ".join(other.value for other in TRANSITIONS[phase]), phase
        assert gate == ", ".join(GATE[phase]), phase


def test_the_picture_of_the_life_has_every_phase() -> None:
    life = LIFE.search(PAGE)
    assert life is not None
    assert not [phase.value for phase in Phase if phase.value not in life[1]]
