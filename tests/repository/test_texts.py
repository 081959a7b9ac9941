"""What is committed runs anywhere and says nothing of the machine it was written on."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

from tests.repository.source import ROOT, committed, imported, modules

BINARY = (
    ".png", ".zstd", ".wal", ".snapshot", ".parquet", ".zst", ".lz4", ".gz", ".jar",
    ".journal", ".meta", "/checkpoint", "/snapshot", "/wal.txt", "/log-1", "/log-2", "/log-3", "/log-4",
)  # fmt: skip
"""Endings of files that are no text. The last ones are logs of other products."""
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|maven\.org|maven\.apache\.org|crates\.io|golang\.org|npmjs\.|deb\.debian\.org|docker\.io|ghcr\.io|quay\.io"
)
NAMELESS = re.compile(r"/overflow/000|/content/[0-9a-f]{2}/")
"""In the path of an overflow file or a claim file of a golden log: its name has no ending."""
MACHINE = re.compile(r"(?<![\w.}/-])/(?:work|root|home|tmp|opt|Users)/[\w.-]")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")

# What a name of an import is called where it is installed from.
DISTRIBUTIONS = {
    "google_crc32c": "google-crc32c",
    "hazelcast": "hazelcast-python-client",
    "jpype": "jpype1",
    "prometheus_client": "prometheus-client",
}


def texts() -> list[tuple[str, str]]:
    return [
        (path, (ROOT / path).read_text())
        for path in committed()
        if not (path.endswith(BINARY) or NAMELESS.search(path))
    ]


def found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path}:{number} {line.strip()[:100]}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_text_names_a_package_registry() -> None:
    assert not found(REGISTRY)


def test_no_text_names_a_place_on_one_machine() -> None:
    assert not found(MACHINE)


def test_nothing_is_left_for_later_in_the_source() -> None:
    assert not found(UNFINISHED)


def test_every_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    declared = {
        name_of(line)
        for line in project["dependencies"] + optional["spark"] + optional["cluster"] + optional["console"]
    }
    used = {
        name.split(".")[0]
        for module in modules()
        for node in ast.walk(module.tree)
        for name in imported(node)
        if name.split(".")[0] not in sys.stdlib_module_names
    }
    # pyspark brings py4j, and _typeshed is the type checker's own: it is never there at run time
    used = {DISTRIBUTIONS.get(name, name) for name in used - {"kvwal", "kvwal_archive", "py4j", "_typeshed"}}
    assert used <= declared
    assert declared - used <= {"pandas", "sortedcontainers"} | loaded_by_name(), "declared, but never imported"


def loaded_by_name() -> set[str]:
    """Fsspec loads its s3 file system by name, and DuckDB pytz for timestamps with a zone."""
    return {"s3fs", "pytz"}


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        name_of(line)
        for group in (project["dependencies"], *project["optional-dependencies"].values())
        for line in group
    }
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in pins)
    assert wanted - {"kvwal"} <= {name_of(line) for line in pins}


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=~! ;]", requirement)[0].lower().replace("_", "-")
