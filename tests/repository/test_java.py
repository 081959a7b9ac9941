"""The Java sources stay small, import in one direction, and have a reason for each patch of Hazelcast's classes."""

from __future__ import annotations

import hashlib
import re
import statistics
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from kvwal.config import MIB, TRANSACTION_BYTES
from tests.repository.source import ROOT, committed, script

SOURCES = "kvwal/node/java/src/"
PATCHES = f"{SOURCES}patches/java/"
MAX_FILE, MEDIAN_FILE, MAX_LINE, MAX_FOLDER = 300, 170, 130, 12
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"')
FOREIGN_IMPORT = re.compile(r"^import (?:static )?(?!kvwal)[^\n]*$", re.MULTILINE)


def java_files() -> dict[str, str]:
    """Text of each Java source, by its path from the root."""
    return {path: (ROOT / path).read_text() for path in committed(".java") if path.startswith(SOURCES)}


def class_name(path: str) -> str:
    """The full name of the class in a file."""
    return re.sub(r".*/(?:main|patches)/java/", "", path).removesuffix(".java").replace("/", ".")


def uses() -> dict[str, set[str]]:
    """Which of our classes each of them names, comments, texts and Hazelcast's classes of the same name apart."""
    files = {class_name(path): text for path, text in java_files().items()}
    simple = {name.rsplit(".", 1)[1]: name for name in files}
    words = re.compile(rf"(?<![\w.])(?:{'|'.join(simple)})\b|(?<=\.)(?:{'|'.join(simple)})(?=;)")
    found = {}
    for name, text in files.items():
        code = FOREIGN_IMPORT.sub("", TEXT.sub('""', COMMENT.sub("", text)))
        found[name] = {simple[word] for word in words.findall(code)} - {name}
    return found


def test_files_folders_and_lines_stay_small() -> None:
    files = java_files()
    lengths = {path: text.count("\n") for path, text in files.items()}
    assert not {path: length for path, length in lengths.items() if length > MAX_FILE}
    assert statistics.median(lengths.values()) <= MEDIAN_FILE
    folders = Counter(path.rsplit("/", 1)[0] for path in files)
    assert not {folder: count for folder, count in folders.items() if count > MAX_FOLDER}
    assert not [path for path, text in files.items() for line in text.splitlines() if len(line) > MAX_LINE]


def test_a_change_of_a_cluster_has_the_limit_of_a_transaction() -> None:
    text = java_files()[f"{SOURCES}main/java/kvwal/log/PendingEntry.java"]
    assert f"int MAX_BYTES = {TRANSACTION_BYTES // MIB} << 20;" in text


def test_classes_and_packages_need_each_other_in_one_direction() -> None:
    classes = uses()
    assert list(TopologicalSorter(classes).static_order())
    packages: dict[str, set[str]] = {}
    for name, used in classes.items():
        package = name.rsplit(".", 1)[0]
        others = {other.rsplit(".", 1)[0] for other in used} - {package}
        packages.setdefault(package, set()).update(other for other in others if other.startswith("kvwal."))
    ours = {package: used for package, used in packages.items() if package.startswith("kvwal.")}
    assert list(TopologicalSorter(ours).static_order())


def test_every_patch_is_in_the_table_with_a_reason_and_a_test() -> None:
    patches = script("check_patches").patches()
    assert sorted(patch["class"] for patch in patches) == sorted(
        class_name(path) for path in java_files() if path.startswith(PATCHES)
    )
    tests = {
        name
        for path in committed(".py")
        if path.startswith("tests/")
        for name in re.findall(r"^def (test_\w+)", (ROOT / path).read_text(), re.MULTILINE)
    }
    assert not [patch["class"] for patch in patches if patch["test"] not in tests or not patch["why"].strip()]


def test_the_table_is_of_the_hazelcast_that_is_pinned() -> None:
    version = re.search(r'^version = "(.*)"$', script("check_patches").TABLE.read_text(), re.MULTILINE)
    pinned = re.search(r'"hazelcast", "([\d.]+)"', (ROOT / "deploy" / "fetch_hazelcast.py").read_text())
    assert version is not None
    assert pinned is not None
    assert version[1] == pinned[1]


@pytest.mark.parametrize("root", ["", "hazelcast/src/main/java"])
def test_a_patched_class_that_is_another_or_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    checks = script("check_patches")
    table = [{"class": f"a.{name}", "sha256": hashlib.sha256(b"one").hexdigest()} for name in ("Same", "Other", "Gone")]
    monkeypatch.setattr(checks, "patches", lambda: table)
    (tmp_path / root / "a").mkdir(parents=True)
    (tmp_path / root / "a" / "Same.java").write_text("one")
    (tmp_path / root / "a" / "Other.java").write_text("two")
    assert checks.changed(tmp_path) == {"a.Other": "has changed", "a.Gone": "is gone"}


def test_every_java_class_that_python_names_exists() -> None:
    classes = {class_name(path) for path in java_files()}
    named = {
        name
        for path in committed(".py")
        for name in re.findall(r'(?:java\(\s*"|impl=)(kvwal\.[\w.]+)(?:\$\w+)?"', (ROOT / path).read_text())
    }
    assert named
    assert named <= classes


def test_every_java_file_that_a_text_names_exists() -> None:
    names = {path.rsplit("/", 1)[1] for path in java_files()}
    named = {
        (path, name)
        for path in committed(".py", ".md")
        if path.startswith(("kvwal/", "docs/", "deploy/", "README"))
        for name in re.findall(r"\b([A-Z]\w+\.java)\b", (ROOT / path).read_text())
    }
    assert not {(path, name) for path, name in named if name not in names}
