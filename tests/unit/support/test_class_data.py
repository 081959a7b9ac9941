"""The class-data archive of test nodes is made once for each Java and its jars, and not at all where Java has none itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import class_data


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar for a Java that shares its own classes."""
    server = tmp_path / "java" / "libjvm.so"
    server.parent.mkdir()
    for name in ("libjvm.so", "classes.jsa"):
        (server.parent / name).touch()
    monkeypatch.setattr(class_data.jpype, "getDefaultJVMPath", lambda: str(server))
    monkeypatch.setattr(class_data, "FOLDER", tmp_path / "class-data")
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"classes")
    return jar


def fill(option: str) -> None:
    """What a node's JVM does with the option."""
    Path(option.partition("=")[2]).write_bytes(b"archive")


def not_again(option: str) -> None:
    raise AssertionError(f"a second run with {option}")


def test_the_archive_is_made_once_and_anew_when_a_jar_changes(jar: Path) -> None:
    (first,) = class_data.java_options([jar], fill)
    assert class_data.java_options([jar], not_again) == [first]
    jar.write_bytes(b"other classes")
    (second,) = class_data.java_options([jar], fill)
    assert second != first
    assert [f"-XX:SharedArchiveFile={path}" for path in class_data.FOLDER.glob("*.jsa")] == [second]


def test_a_run_that_writes_no_archive_leaves_nodes_without_one(jar: Path) -> None:
    assert class_data.java_options([jar], lambda option: None) == []


def test_a_java_without_class_data_gets_none(jar: Path) -> None:
    (jar.parent / "java" / "classes.jsa").unlink()
    assert class_data.java_options([jar], not_again) == []
