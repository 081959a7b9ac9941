"""`kvwal-python` runs a program as Python does; what it records of a Spark application stands in tests/integration/spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvwal.cli.spark.submit import beside_python, check_arguments, split_arguments, wrapper
from kvwal.errors import ConfigError

PROGRAM = """
import json, pickle, sys, __main__
class Row:
    number: int = 0
def half(number: int) -> int: ...
print(json.dumps({"argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "main": __main__.Row is Row,
    "pickled": pickle.loads(pickle.dumps(Row())).number, "annotation": str(half.__annotations__["number"]),
    "builtins": type(__builtins__).__name__}))
"""


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)


def test_a_program_runs_as_by_python(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    plain = run(sys.executable, program, "--rows", "5")
    recorded = run(beside_python("kvwal-python"), program, "--rows", "5")
    assert plain.stdout
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (plain.stdout, "", 0)


@pytest.mark.parametrize("ends", ["raise SystemExit(3)", "import sys; sys.exit('told')", "raise SystemExit", "1 / 0"])
def test_a_program_ends_as_by_python(ends: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ends)
    plain, recorded = run(sys.executable, program), run(beside_python("kvwal-python"), program)
    assert recorded.returncode == plain.returncode
    assert recorded.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]


def test_another_command_line_is_pythons_and_says_that_nothing_is_recorded() -> None:
    shell = run(beside_python("kvwal-python"), "-c", "import sys; print(sys.argv); sys.exit(3)", "a")
    assert (shell.returncode, shell.stdout) == (3, "['-c', 'a']\n")
    assert "nothing is recorded" in shell.stderr


def test_the_program_stands_after_the_options_of_spark_submit() -> None:
    words = ["--jars", "x.jar", "--verbose", "--conf", "a=b", "--master=local", "app.py", "--class", "no.option"]
    assert split_arguments(words) == ({"--jars=x.jar", "--verbose", "--conf=a=b", "--master=local"}, "app.py")
    check_arguments(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--master", "local"], "no program"),
        (["--class", "org.example.Main", "app.jar", "job.py"], "app.jar"),
        (["--deploy-mode", "cluster", "app.py"], "cluster"),
        (["--conf", "spark.submit.deployMode=cluster", "app.py"], "cluster"),
        (["-c", "spark.submit.deployMode=cluster", "app.py"], "cluster"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_spark_starts(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_arguments(words)


def test_the_python_that_records_is_found_beside_the_command_and_by_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `pip install --target`, whose programs are not beside Python; or where Python is a part of another program."""
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    installed = beside_python("kvwal-python")
    monkeypatch.setattr(sys, "argv", ["kvwal"])
    for executable in ("", "/usr/bin/env"):
        monkeypatch.setattr(sys, "executable", executable)
        assert wrapper() == installed
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(installed.parent))
    assert wrapper() == installed
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [str(installed.parent / "kvwal")])
    assert wrapper() == installed
    monkeypatch.setattr(sys, "argv", ["kvwal"])
    with pytest.raises(
        ConfigError, match=r"kvwal-python, the Python that records, is not here: not at .*/bin/kvwal-python"
    ):
        wrapper()
