"""A class-data archive is made once for each Java and its jars, on the archive of Java's own classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.java import class_data

JAVA = """#!/bin/sh
for option do :; done
echo classes > "${option#*=}"
"""
"""A Java that writes the archive of its own classes where its last option says."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that shares its own classes."""
    monkeypatch.setattr(class_data, "FOLDER", tmp_path / "class-data")
    server = tmp_path / "java" / "lib" / "server"
    server.mkdir(parents=True)
    for name in ("libjvm.so", "classes.jsa"):
        (server / name).touch()
    return tmp_path / "java"


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"classes")
    return jar


def fill(options: list[str]) -> None:
    """What a JVM does with the options when it ends."""
    Path(options[-1].partition("=")[2]).write_bytes(b"archive")


def not_again(options: list[str]) -> None:
    raise AssertionError(f"a second run with {options}")


def archives(option: str) -> list[Path]:
    """The archive of Java's own classes, and the one on it."""
    return [Path(path) for path in option.removeprefix("-XX:SharedArchiveFile=").split(":")]


def test_the_archive_is_made_once_and_anew_when_a_jar_changes(home: Path, jar: Path) -> None:
    (first,) = class_data.java_options("node", home, [jar], fill)
    assert class_data.java_options("node", home, [jar], not_again) == [first]
    jar.write_bytes(b"other classes")
    (second,) = class_data.java_options("node", home, [jar], fill)
    assert second != first
    assert archives(second) == [home / "lib" / "server" / "classes.jsa", *class_data.FOLDER.glob("*.jsa")]


def test_archives_of_two_names_stay_beside_each_other(home: Path, jar: Path) -> None:
    first = class_data.java_options("node", home, [jar], fill)
    class_data.java_options("spark", home, [jar], fill)
    assert class_data.java_options("node", home, [jar], not_again) == first


def test_a_run_that_writes_no_archive_leaves_jvms_without_one(home: Path, jar: Path) -> None:
    assert class_data.java_options("node", home, [jar], lambda options: None) == []


def test_a_java_without_an_archive_of_its_own_classes_writes_one(home: Path, jar: Path) -> None:
    (home / "lib" / "server" / "classes.jsa").unlink()
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA)
    java.chmod(0o755)
    (option,) = class_data.java_options("node", home, [jar], fill)
    base, archive = archives(option)
    assert (base.read_text(), archive.read_text()) == ("classes\n", "archive")
    java.write_text("#!/bin/sh\nexit 1\n")
    assert class_data.java_options("node", home, [jar], not_again) == [option]


def test_a_java_without_class_data_gets_none(home: Path, jar: Path) -> None:
    (home / "lib" / "server" / "classes.jsa").unlink()
    assert class_data.java_options("node", home, [jar], not_again) == []
