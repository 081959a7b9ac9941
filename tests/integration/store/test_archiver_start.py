"""The start of the archiver process, in all kinds of programs, installations and folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KVWAL = Path(sys.executable).parent / "kvwal"
USE = """
import sys, kvwal
with kvwal.open(sys.argv[1], archive=sys.argv[2]) as store:
    notes = store.map("notes")
    notes["a"] = 1
    store.archive()
    store.checkpoint()
"""
"""A program that needs the archiver: its arguments are a root and an archive."""


def ran(
    tmp_path: Path, *command: str, program: str = USE, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    arguments = [*command, "-c", program, str(tmp_path / "root"), str(tmp_path / "archive")]
    return subprocess.run(arguments, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def snapshots(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "root").rglob("*.snapshot"))


def objects(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "archive").rglob("*.parquet"))


def assert_archived(tmp_path: Path, process: subprocess.CompletedProcess[str]) -> None:
    assert (process.returncode, process.stdout) == (0, ""), process.stderr
    assert snapshots(tmp_path)
    assert objects(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with files that are named like modules which the archiver imports; each notes that it was run."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("queue", "types", "random", "archive", "msgspec", "pandas", "kvwal"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write('{name} ')\nraise ImportError\n")
    return folder


def test_no_module_of_the_current_folder_is_run(tmp_path: Path, project: Path) -> None:
    root = tmp_path / "root"
    for command in (["put", root, "notes", "a", "1"], ["checkpoint", root], ["archive", "run", root]):
        subprocess.run([KVWAL, *map(str, command)], cwd=project, check=True, capture_output=True)
    assert snapshots(tmp_path)
    assert not (project / "ran").exists()


def test_no_module_beside_the_program_is_run_by_the_archiver(tmp_path: Path) -> None:
    """The program itself had these modules from elsewhere before its own came first on its path, or does without."""
    folder = tmp_path / "program"
    folder.mkdir()
    for name in ("types", "queue", "pandas", "fsspec"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    program = folder / "program.py"
    own = "import sys\nown = sys.path.pop(0)\nimport kvwal, queue, types\nsys.path.insert(0, own)\n"
    program.write_text(own + USE)
    command = [sys.executable, program, tmp_path / "root", tmp_path / "archive"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert_archived(tmp_path, process)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.variants(1)
def test_closed_standard_streams_are_borne(tmp_path: Path, closed: str) -> None:
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}', sys.executable]
    process = ran(tmp_path, *shell)
    assert (process.returncode, len(snapshots(tmp_path)), len(objects(tmp_path))) == (0, 1, 1)


def test_what_python_prints_at_its_start_is_no_answer(tmp_path: Path) -> None:
    """As a `sitecustomize`, a wrapper of Python or a library prints it."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\necho "Welcome to this machine"\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    (tmp_path / "sitecustomize.py").write_text("print('a greeting')\n")
    program = f"import sys; sys.executable = {str(wrapper)!r}\n{USE}"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = ran(tmp_path, sys.executable, program=program, env=env)
    assert (process.returncode, process.stdout) == (0, "a greeting\n"), process.stderr
    assert "Welcome to this machine" in process.stderr
    assert objects(tmp_path)


def test_a_working_folder_that_was_deleted_is_borne(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"import os\nos.chdir({str(gone)!r})\nos.rmdir({str(gone)!r})\n{USE}"
    assert_archived(tmp_path, ran(tmp_path, sys.executable, program=program))


def test_a_relative_root_in_a_working_folder_that_was_deleted_is_refused(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"import os, kvwal\nos.chdir({str(gone)!r})\nos.rmdir({str(gone)!r})\nkvwal.open('data')"
    last = ran(tmp_path, sys.executable, program=program).stderr.strip().splitlines()[-1]
    assert last.startswith(
        "kvwal_archive.errors.ConfigError: root='data' is below the current folder, which was deleted."
    )


@pytest.mark.parametrize("executable", ["", "/usr/bin/env", "/nowhere/python3", None])
@pytest.mark.variants(2)
def test_a_program_that_is_no_python_finds_its_python(tmp_path: Path, executable: str | None) -> None:
    """A server that has Python built in, as uWSGI: `sys.executable` is empty or names the server."""
    program = f"import sys; sys.executable = {executable!r}\n{USE}"
    assert_archived(tmp_path, ran(tmp_path, sys.executable, program=program))


def test_a_program_without_any_python_says_so(tmp_path: Path) -> None:
    hide = (
        "import sys, sysconfig\nsys.executable = '/usr/sbin/server'\nsys._base_executable = ''\n"
        "sys.prefix = sys.exec_prefix = sys.base_prefix = sys.base_exec_prefix = '/nowhere'\n"
        "sysconfig.get_config_vars()['BINDIR'] = '/nowhere/bin'\n"
    )
    process = ran(tmp_path, sys.executable, program=hide + USE)
    assert process.returncode == 1
    last = process.stderr.strip().splitlines()[-1]
    assert "the archiver process cannot be started: this program (/usr/sbin/server) is no Python" in last
    assert "sys.executable" in last


def test_a_python_that_cannot_run_kvwal_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho 'python: no such library' >&2\nexit 127\n")
    broken.chmod(0o755)
    process = ran(tmp_path, sys.executable, program=f"import sys; sys.executable = {str(broken)!r}\n{USE}")
    last = process.stderr.strip().splitlines()[-1]
    assert f"the archiver process ended with code 127 before it could take a job ({broken})" in last
    assert "standard error" in last


def site_packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


def base_python() -> str:
    """A Python that has none of kvwal's packages."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def copied(folder: Path) -> Path:
    """The two packages, copied as `pip install --target` does."""
    ignored = shutil.ignore_patterns("java", "*.pyc", "glue.jar")
    shutil.copytree(ROOT / "kvwal", folder / "kvwal", ignore=ignored)
    shutil.copytree(ROOT / "archive" / "kvwal_archive", folder / "kvwal_archive", ignore=ignored)
    return folder


def libraries(folder: Path) -> Path:
    """The installed packages without those that are installed by a path to this checkout."""
    folder.mkdir()
    for path in site_packages().iterdir():
        if not path.name.startswith("_kvwal") and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


def environment(path: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}, "PYTHONPATH": path}


def test_only_pythonpath_names_kvwal(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT), str(ROOT / "archive"), str(libraries(tmp_path / "libraries"))])
    assert_archived(tmp_path, ran(tmp_path, base_python(), env=environment(path), cwd=tmp_path))


def test_kvwal_stands_in_the_current_folder(tmp_path: Path) -> None:
    """As after `pip install --target .`: the program and kvwal are in one folder, which is also the current one."""
    folder = copied(libraries(tmp_path / "target"))
    assert_archived(tmp_path, ran(tmp_path, base_python(), env=environment(""), cwd=folder))


def test_kvwal_is_in_a_zip_file(tmp_path: Path) -> None:
    folder = copied(tmp_path / "source")
    with zipfile.ZipFile(tmp_path / "program.pyz", "w") as program:
        for path in folder.rglob("*.py"):
            program.write(path, path.relative_to(folder))
        program.writestr("__main__.py", USE)
    paths = [str(tmp_path / "root"), str(tmp_path / "archive")]
    command = [base_python(), "program.pyz", *paths]
    env = environment(str(libraries(tmp_path / "libraries")))
    process = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert_archived(tmp_path, process)


def test_a_python_of_a_moved_home_is_found_by_its_variable(tmp_path: Path) -> None:
    """PYTHONHOME is how a Python that was moved finds its library: the archiver's needs it, too."""
    env = {**os.environ, "PYTHONHOME": sys.base_prefix}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "archive"), str(site_packages())])
    moved = tmp_path / "moved" / "python3"
    moved.parent.mkdir()
    shutil.copy(os.path.realpath(base_python()), moved)
    assert_archived(tmp_path, ran(tmp_path, str(moved), env=env))
