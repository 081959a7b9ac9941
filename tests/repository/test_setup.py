"""What set-up does on a machine that has only Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.repository.source import script


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
