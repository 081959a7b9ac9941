"""kvwal submit: run a PySpark application through spark-submit with the recorder attached, without changes to the application."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.begun import begun_in_folder
from kvwal.cli.locations import StoreLocation
from kvwal.cli.options import Archive
from kvwal.errors import ConfigError
from kvwal.location.opening import only_reads
from kvwal.location.parse import ArchiveLocation, FolderLocation, parse_location
from kvwal.ports.children.interpreter import interpreter
from kvwal.ports.disk import OS_DISK
from kvwal.spark.eventlog.log_reader import BUSINESS

WRAPPER = "kvwal-python"
_FLAGS = {"--help", "-h", "--verbose", "-v", "--version", "--supervise", "--usage-error"}
"""The options of spark-submit that take no value."""
_EVENT_LOGS = "Let Spark write event logs instead, and read them with `kvwal record`."

Arguments = Annotated[
    list[str],
    typer.Argument(
        metavar="SPARK_SUBMIT_ARGUMENTS...",
        help="What spark-submit takes: its options, the program, and the program's arguments.",
        show_default=False,
    ),
]


def submit(
    location: StoreLocation,
    arguments: Arguments,
    namespace: Annotated[
        str | None, typer.Option(help="The namespace; 'default' without it.", rich_help_panel="Which log")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="The cluster; 'local' without it.", rich_help_panel="Which log")
    ] = None,
    archive: Archive = None,
    keep_logs: Annotated[
        bool,
        typer.Option("--keep-logs", help="Keep Spark's event log, too, as content: needs spark.eventLog.enabled."),
    ] = False,
) -> None:
    """Run a Python application by spark-submit, and record it into a store. Nothing changes in the application.

    Options of kvwal stand before LOCATION. The driver runs here, by the Python of this kvwal.
    """
    check_arguments(arguments)
    note_begun(location, namespace, cluster)
    settings = {
        "spark.pyspark.driver.python": str(wrapper()),
        "spark.kvwal.store": target_of(location),
        "spark.kvwal.namespace": namespace,
        "spark.kvwal.cluster": cluster,
        "spark.kvwal.archive": archive,
        "spark.kvwal.keepLogs": "true" if keep_logs else None,
    }
    program = spark_submit()
    options = [word for name, value in settings.items() if value is not None for word in ("--conf", f"{name}={value}")]
    sys.stdout.flush()
    os.execv(program, [str(program), *options, *arguments])


def note_begun(typed: str, namespace: str | None, cluster: str | None) -> None:
    """Note on standard error which new log the recorder will create in a folder: a mistyped name shows there."""
    location = parse_location(OS_DISK, typed)
    if isinstance(location, FolderLocation):
        begun = begun_in_folder(OS_DISK, location.root, namespace or "default", cluster or "local", BUSINESS)
        if begun:
            show.note(f"kvwal: {begun}")


def target_of(typed: str) -> str:
    """The location for a program that may run in another folder. Raises `ConfigError` for an archive, which is only read."""
    location = parse_location(OS_DISK, typed)
    if isinstance(location, ArchiveLocation):
        raise only_reads(location)
    return str(location.root.absolute()) if isinstance(location, FolderLocation) else typed


def check_arguments(arguments: list[str]) -> None:
    """Raise `ConfigError` for an application whose driver is not a Python program on this machine.

    Only the arguments are checked. The property files of spark-submit (`--properties-file`, spark-defaults.conf) are not read.
    """
    options, program = split_arguments(arguments)
    if {"--deploy-mode=cluster", "--conf=spark.submit.deployMode=cluster"} & options:
        raise ConfigError("In the deploy mode cluster the driver runs on another machine.", hint=_EVENT_LOGS)
    if program is None:
        raise ConfigError(
            "There is no program among the arguments of spark-submit.",
            hint="For example: kvwal submit data --master 'local[2]' app.py",
        )
    if not program.endswith(".py"):
        raise ConfigError(f"{program}: only a Python program (FILE.py) can be recorded so.", hint=_EVENT_LOGS)


def split_arguments(arguments: list[str]) -> tuple[set[str], str | None]:
    """The options of spark-submit, each as `--name=value`, and the program after them. `-c` is written as `--conf`."""
    options: set[str] = set()
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("-"):
            return options, word
        alone = "=" in word or word in _FLAGS
        name = "--conf" if word == "-c" else word
        options.add(word if alone else f"{name}={next(rest, '')}")
    return options, None


def spark_submit() -> Path:
    """The spark-submit of SPARK_HOME if it is set, else the one beside this Python; if that file is missing, the one on the PATH.

    Raises `ConfigError` if none of them is there.
    """
    home = os.environ.get("SPARK_HOME")
    places = [Path(home, "bin", "spark-submit")] if home else [beside_python("spark-submit")]
    places += [Path(path) for path in [shutil.which("spark-submit")] if path]
    for place in places:
        if place.is_file():
            return place
    raise ConfigError(
        "spark-submit is not here: not in SPARK_HOME, not beside this Python, not on the PATH.",
        hint="Set SPARK_HOME, or install pyspark.",
    )


def wrapper() -> Path:
    """Path of `kvwal-python`, the driver's Python with the recorder: beside Python, beside this command, or on the PATH.

    Raises `ConfigError` if it is nowhere.
    """
    found = shutil.which(WRAPPER)
    places = [beside_python(WRAPPER), Path(sys.argv[0]).absolute().parent / WRAPPER, *([Path(found)] if found else [])]
    for place in places:
        if place.is_file():
            return place
    raise ConfigError(
        f"{WRAPPER}, the Python that records, is not here: not at {places[0]}, not beside this command, not on the PATH.",
        hint="Install kvwal with pip, which brings it, and put the folder of its programs on the PATH.",
    )


def beside_python(name: str) -> Path:
    """The program `name` of the environment that kvwal is installed in."""
    return Path(interpreter()).parent / name
