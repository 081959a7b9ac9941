"""Words that the source and the pages no longer use, and the folders where some of them still stand.

    python -m tests.repository.vocabulary      take folders off `vocabulary.toml` that no longer hold their word

The lists only get shorter: a new use of an old word fails in a folder that is not listed.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.repository.source import ROOT, committed, parse

LIST = ROOT / "tests" / "repository" / "vocabulary.toml"
KINDS = ("prose", "classes", "modules")

# What keeps the words of its time, or names them: history, licences, data, and this list.
EXEMPT = (
    "CHANGELOG.md", "LICENSE", "benchmarks/results/", "constraints.txt", "docs/decisions/", "kvwal/lineage/openlineage/spec/",
    "tests/golden/", "tests/support/lineage/facets/",
    "tests/repository/vocabulary",
)  # fmt: skip
BINARY = (".png", ".zstd", ".wal", ".snapshot", ".parquet", ".zst", ".lz4", ".gz", ".jar")

Uses = dict[str, set[str]]
"""The folders in which each word is used."""


def listed() -> dict[str, dict[str, list[str]]]:
    """Of each kind the old words, and the folders where each may still stand."""
    return tomllib.loads(LIST.read_text())


@cache
def used() -> dict[str, Uses]:
    """Of each kind the old words that are used, and in which folders."""
    words = listed()
    paths = [path for path in committed() if not path.startswith(EXEMPT) and not path.endswith(BINARY)]
    return {
        "prose": _prose(paths, list(words["prose"])),
        "classes": _classes(paths, set(words["classes"])),
        "modules": _modules(paths, set(words["modules"])),
    }


def _prose(paths: list[str], words: list[str]) -> Uses:
    """In sentences and names of every text; a word is whole between letters, so it is found in `a_word` and `AWord` too."""
    patterns = {word: re.compile(rf"(?<![a-z]){word}(?![a-z])", re.IGNORECASE) for word in words}
    found: Uses = defaultdict(set)
    for path in paths:
        text = " ".join((ROOT / path).read_text().split())  # a phrase may go over the end of a line
        lower = text.lower()
        for word, pattern in patterns.items():
            if word in lower and pattern.search(text):
                found[word].add(_folder(path))
    return found


def _classes(paths: list[str], names: set[str]) -> Uses:
    """Classes that are defined: an ordinary word may be an old name and still stand in a sentence."""
    found: Uses = defaultdict(set)
    for path in paths:
        defined = {Path(path).stem} if path.endswith(".java") else set()
        if path.endswith(".py"):
            defined = {node.name for node in ast.walk(parse(path).tree) if isinstance(node, ast.ClassDef)}
        for name in defined & names:
            found[name].add(_folder(path))
    return found


def _modules(paths: list[str], stems: set[str]) -> Uses:
    """Modules of the packages, by the names of their files."""
    found: Uses = defaultdict(set)
    for path in paths:
        if path.startswith(("kvwal/", "archive/")) and path.endswith(".py") and Path(path).stem in stems:
            found[Path(path).stem].add(_folder(path))
    return found


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."


def shorten() -> int:
    """Take off the list what is no longer used; how many folders went."""
    kinds, uses, gone = listed(), used(), 0
    text = ["# Old words and the folders where they may still stand (see vocabulary.py); never longer, soon empty.\n"]
    for kind in KINDS:
        text.append(f"\n[{kind}]\n")
        for word, folders in kinds[kind].items():
            left = sorted(set(folders) & uses[kind].get(word, set()))
            gone += len(folders) - len(left)
            inside = "".join(f'    "{folder}",\n' for folder in left)
            text.append(f'"{word}" = [\n{inside}]\n' if left else f'"{word}" = []\n')
    LIST.write_text("".join(text))
    return gone


if __name__ == "__main__":
    print(f"{shorten()} folders were taken off the list.")
