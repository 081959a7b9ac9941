"""What set-up does on a machine that has only Python."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.repository.source import ROOT, script


def test_the_java_home_drops_the_option_that_its_runtime_cannot_take(tmp_path: Path) -> None:
    runtime = tmp_path / "a runtime"
    (runtime / "bin").mkdir(parents=True)
    (runtime / "lib" / "server").mkdir(parents=True)
    (runtime / "lib" / "server" / "libjvm.so").touch()
    (runtime / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (runtime / "bin" / "java").chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    (home / "lib").symlink_to(runtime / "lib")  # as it was laid once
    for _ in range(2):
        script("java_home").build_home(home, runtime)
    typed = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=two words", "Main"]
    ran = subprocess.run([home / "bin" / "java", *typed], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["-Xmx1g", "-Dname=two words", "Main"]
    assert [place for place, _, files in os.walk(home) if "libjvm.so" in files] == [str(home / "lib" / "server")]


def test_a_machine_without_java_is_told_apart(tmp_path: Path) -> None:
    assert script("java_home").major_version(str(tmp_path / "java")) == 0


def test_a_jar_that_is_not_the_pinned_one_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher = script("fetch_hazelcast")
    monkeypatch.setattr(fetcher, "JAR", tmp_path / "jars" / "hazelcast.jar")

    def brings_another(folder: Path, *module: str) -> Path:
        (folder / "hazelcast.jar").write_bytes(b"something else")
        return folder / "hazelcast.jar"

    monkeypatch.setattr(fetcher, "fetch", brings_another)
    assert fetcher.main() == 1
    assert not fetcher.JAR.exists()


def test_without_a_network_set_up_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetcher = script("fetch_hazelcast")
    monkeypatch.setattr(fetcher, "JAR", tmp_path / "jars" / "hazelcast.jar")

    def is_offline(folder: Path, *module: str) -> Path:
        raise subprocess.CalledProcessError(1, "java")

    monkeypatch.setattr(fetcher, "fetch", is_offline)
    assert fetcher.main() == 0
    assert "Only the cluster needs it" in capsys.readouterr().out


@pytest.fixture
def s3a(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that fetches the jars for s3a://, with two jars in its list."""
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    fetcher = script("fetch_s3a")
    table = tmp_path / "jars.txt"
    table.write_text("".join(f"org {name} 1 {hashlib.sha256(name.encode()).hexdigest()}\n" for name in ("one", "two")))
    monkeypatch.setattr(fetcher, "TABLE", table)
    monkeypatch.setattr(fetcher, "FOLDER", tmp_path / "jars" / "s3a")
    return fetcher


def test_of_the_jars_for_s3a_only_the_missing_ones_are_fetched(
    s3a: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def bring(folder: Path, jars: list[Any]) -> None:
        asked.append([jar.module for jar in jars])
        for jar in jars:
            (folder / jar.name).write_text(jar.module)

    monkeypatch.setattr(s3a.pinned_jars, "fetch", bring)
    assert s3a.main() == 0
    assert s3a.main() == 0
    (s3a.FOLDER / "two-1.jar").write_text("damaged")
    assert s3a.main() == 0
    assert asked == [["one", "two"], ["two"]]
    assert sorted(path.read_text() for path in s3a.FOLDER.iterdir()) == ["one", "two"]


def test_jars_for_s3a_that_are_not_the_pinned_ones_are_not_kept(
    s3a: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        s3a.pinned_jars,
        "fetch",
        lambda folder, jars: [(folder / jar.name).write_text("something else") for jar in jars],
    )
    assert s3a.main() == 1
    assert not list(s3a.FOLDER.iterdir())
    assert "is pinned: no jar was kept" in capsys.readouterr().err
    monkeypatch.setattr(s3a.pinned_jars, "fetch", lambda folder, jars: None)
    assert s3a.main() == 1, "Ivy ended, and brought nothing"
    assert "could not be fetched" in capsys.readouterr().err


def test_the_jars_for_s3a_are_of_the_hadoop_in_pyspark_and_of_one_aws_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    fetcher = script("fetch_s3a")
    pinned = fetcher.pinned_jars.read(fetcher.TABLE)
    versions = {jar.module: jar.version for jar in pinned}
    (hadoop,) = fetcher.pinned_jars.fetcher.ivy().parent.glob("hadoop-client-api-*.jar")
    assert hadoop.stem == f"hadoop-client-api-{versions['hadoop-aws']}"
    sdk = {jar.version for jar in pinned if jar.organisation == "software.amazon.awssdk"}
    assert len(sdk) == 1
    assert {"s3", "s3-transfer-manager"} <= set(versions)


def test_event_logs_that_cannot_be_fetched_do_not_end_set_up_and_wrong_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    fetcher = script("fetch_event_logs")
    monkeypatch.setattr(fetcher, "FOLDER", tmp_path / "event-logs")
    monkeypatch.setattr(fetcher.pinned_jars, "fetch", lambda folder, jars: None)
    assert fetcher.main() == 0
    assert "Only the tests of Spark's published event logs need them" in capsys.readouterr().err
    names = [jar.name for jar in fetcher.pinned_jars.read(fetcher.TABLE)]
    assert all(name.endswith("-tests.jar") for name in names)
    monkeypatch.setattr(
        fetcher.pinned_jars, "fetch", lambda folder, jars: [(folder / jar.name).write_text("another") for jar in jars]
    )
    assert fetcher.main() == 1
    assert not list(fetcher.FOLDER.iterdir())
