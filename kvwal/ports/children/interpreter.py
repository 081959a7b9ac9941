"""The Python of this process, for its child processes: the program, its options, and the folders that kvwal is imported from.

A child must run the same kvwal with the same libraries, and nothing else that lies about: no module of the current folder, and
none beside the program's own file. So it does not search for them: it gets the folders from which this process imported them.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kvwal.errors import ConfigError

_PACKAGES = (
    "kvwal", "kvwal_archive", "msgspec", "pyarrow", "numpy", "google_crc32c", "sortedcontainers", "typing_extensions", "xxhash",
    "lz4", "zstandard", "fsspec", "s3fs", "aiobotocore", "botocore", "aiohttp", "tenacity", "structlog", "duckdb", "pytz",
    "hazelcast",
)  # fmt: skip
"""Packages that a child may import, by their import names."""

_START = (
    "import runpy, sys; sys.path += sys.argv[3:]; del sys.argv[0], sys.argv[2:];"
    " runpy.run_module(sys.argv[0], None, '__main__')"
)
"""The child's first statements: Python's own library comes first on the path, then the folders that this process names."""


class NoInterpreter(ConfigError):
    """No Python was found that can run a module."""


def command(module: str, argument: str) -> list[str]:
    """A command that runs `module` with one argument, isolated from the current folder and the environment's settings.

    Raises `NoInterpreter`.
    """
    # -S: no start-up code of an installation (sitecustomize, .pth files), which may print or import. -s: no folder of a user.
    options = ["-P", "-s", "-S", "-X", f"utf8={sys.flags.utf8_mode}"]
    return [interpreter(), *options, "-c", _START, module, argument, *import_folders()]


def environment() -> dict[str, str]:
    """The environment of a child: without the variables of Python, but for the one that names the folder of its library."""
    kept = set() if sys.flags.ignore_environment else {"PYTHONHOME"}
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") or name in kept}


def interpreter() -> str:
    """The path of the Python that this process runs.

    `sys.executable` is empty, or another program, where Python is a part of that program, as in uWSGI. It is not run then: the
    program would start again. The Python beside the library is used instead. Raises `NoInterpreter`.
    """
    for path in _candidates():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    looked = ", ".join(dict.fromkeys(_candidates())) or "no folder"
    raise NoInterpreter(
        f"this program ({sys.executable or 'unnamed'}) is no Python, and none of these is there: {looked}.",
        hint="Set sys.executable to the Python that has kvwal, before the store is opened.",
    )


def _candidates() -> Iterator[str]:
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    yield from _named(sys.executable)
    yield from (str(Path(prefix, "bin", name)) for prefix in (sys.prefix, sys.exec_prefix))
    yield from _named(getattr(sys, "_base_executable", None))
    yield from (str(Path(prefix, "bin", name)) for prefix in (sys.base_prefix, sys.base_exec_prefix))
    if folder := sysconfig.get_config_var("BINDIR"):
        yield str(Path(folder, name))


def _named(path: str | None) -> Iterator[str]:
    """`path`, if its name is one of a Python."""
    if path and Path(path).name.lower().startswith(("python", "pypy")):
        yield path


def import_folders() -> list[str]:
    """Folders and zip files from which a child imports: those of kvwal and its libraries, then the others of `sys.path`.

    The current folder, and the folder of the program's file, are left out unless kvwal or a library was imported from there.
    """
    used = [folder for name in _PACKAGES if (folder := _folder_of(name)) is not None]
    callers = {os.path.realpath(folder) for folder in _callers_folders()}
    others = [path for path in _absolute_path() if os.path.realpath(path) not in callers]
    return list(dict.fromkeys(used + others))


def _folder_of(name: str) -> str | None:
    module = sys.modules.get(name)
    places = list(getattr(module, "__path__", [])) or [getattr(module, "__file__", None)]
    return os.path.dirname(os.path.abspath(places[0])) if places[0] else None


def _callers_folders() -> Iterator[str]:
    with suppress(FileNotFoundError):  # it was deleted
        yield os.getcwd()
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if program is not None and os.path.isdir(
        folder := os.path.dirname(program)
    ):  # not a zip file, which nobody adds to
        yield folder


def _absolute_path() -> Iterator[str]:
    for path in sys.path:
        with suppress(FileNotFoundError):  # a relative path, and the current folder was deleted
            if path:
                yield os.path.abspath(path)
