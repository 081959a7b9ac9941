"""Modules and folders stay small, imports point one way, and files are touched through the ports only."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tests.repository.source import PACKAGES, ROOT, SOURCES, Module, committed, functions, imported, modules, parse

MAX_FILE = 400
MAX_FUNCTION = 60
MAX_FOLDER = 12
MAX_DEPTH = 2
"""Folders below a package, or below tests and benchmarks."""

# Files over the limit, each with the reason why it is one file still.
LONGER_FILES: dict[str, str] = {}

# Folders over the limit, each with the reason why it is one folder still.
FULLER_FOLDERS: dict[str, str] = {}

# Own-package imports that may stand inside a function, each with its reason. Lazy re-exports of an __init__ need no entry.
LATE_IMPORTS = {
    (
        "kvwal/cli/main.py",
        "kvwal.cli.app",
    ): "a plain `kvwal get` must not load typer, which takes longer than the command may",
    ("kvwal/cli/main.py", "kvwal.ports.logger"): "as above, and a plain `kvwal get` logs nothing",
    (
        "kvwal/node/command.py",
        "kvwal.node.service",
    ): "what a node needs is an extra: every other command works without it",
    (
        "kvwal/cli/spark/follow.py",
        "kvwal.node.health.http",
    ): "HTTP is an extra: a follower without --http works without it",
    ("kvwal/cli/spark/follow.py", "kvwal.spark.follower.metrics"): "as above",
    (
        "kvwal/cli/lineage/console.py",
        "kvwal.console.service",
    ): "HTTP is an extra: the command checks for it first and names what is missing",
    (
        "kvwal/location/connect.py",
        "kvwal.location.cluster_store",
    ): "Hazelcast's client is an extra; `connect` checks for it first and names the missing package",
}

# Modules outside the ports and the edges that may touch files directly, each with its reason.
BEYOND_THE_PORTS: dict[str, str] = {}

# `kvwal/ports/` is kvwal's side of the ports, `archive/kvwal_archive/objects/` that of the archive, which may not import kvwal.
# The command line and Spark's event logs are edges: their files are the user's, not those of a store.
PORTS = ("kvwal/ports/", "archive/kvwal_archive/objects/", "kvwal/cli/", "kvwal/spark/")
PATH_IO = {
    "read_text", "read_bytes", "write_text", "write_bytes", "touch", "rglob", "iterdir", "is_file", "is_dir", "is_symlink",
    "hardlink_to", "symlink_to",
}  # fmt: skip


def python_files() -> list[Module]:
    return [parse(path) for path in committed(".py")]


def test_no_file_is_longer_than_400_lines() -> None:
    too_long = {module.path for module in python_files() if module.text.count("\n") > MAX_FILE}
    assert not too_long - LONGER_FILES.keys()
    assert not LONGER_FILES.keys() - too_long, "no longer needed: take it off the list"


def test_no_function_is_longer_than_60_lines() -> None:
    too_long = [
        f"{module.path}:{function.lineno} {function.name}"
        for module in python_files()
        for function in functions(module.tree)
        if (function.end_lineno or 0) - function.lineno >= MAX_FUNCTION
    ]
    assert not too_long


def test_folders_stay_small_and_flat() -> None:
    """Not counted are what Python and pytest prescribe, `__init__.py` and `conftest.py`."""
    paths = [path for path in committed(".py") if path.startswith((*SOURCES, "tests/", "benchmarks/"))]
    folders = Counter(path.rpartition("/")[0] for path in paths if not path.endswith(("__init__.py", "conftest.py")))
    full = {folder for folder, count in folders.items() if count > MAX_FOLDER}
    assert not full - FULLER_FOLDERS.keys()
    assert not FULLER_FOLDERS.keys() - full, "no longer needed: take it off the list"
    assert not [folder for folder in folders if folder.count("/") > MAX_DEPTH]


def test_no_module_is_named_for_nothing() -> None:
    assert not [
        module.path for module in modules() if module.path.rsplit("/", 1)[1] in {"utils.py", "helpers.py", "common.py"}
    ]


def late_imports(module: Module) -> Iterator[tuple[str, str]]:
    """Own-package imports inside functions, as (file, module imported)."""
    for function in functions(module.tree):
        for node in ast.walk(function):
            for name in imported(node):
                if name.split(".")[0] in PACKAGES:
                    yield module.path, name


def test_own_modules_are_imported_at_the_top() -> None:
    found = {late for module in modules() if not module.path.endswith("__init__.py") for late in late_imports(module)}
    assert not found - LATE_IMPORTS.keys()
    assert not LATE_IMPORTS.keys() - found, "no longer needed: take it off the list"


def file_calls(module: Module) -> Iterator[str]:
    """Calls of `open` and of pathlib's reading and writing methods, which ruff's banned-api cannot see."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            yield f"{module.path}:{node.lineno} open"
        if isinstance(node.func, ast.Attribute) and node.func.attr in PATH_IO:
            yield f"{module.path}:{node.lineno} .{node.func.attr}"


def test_files_are_touched_through_the_ports_only() -> None:
    guarded = [
        module for module in modules() if not module.path.startswith(PORTS) and module.path not in BEYOND_THE_PORTS
    ]
    assert not [call for module in guarded for call in file_calls(module)]


def public_without_docstring(module: Module) -> Iterator[str]:
    """Public classes, functions and methods of public classes that promise nothing."""
    pending: list[tuple[str, ast.AST]] = [(module.path, module.tree)]
    while pending:
        where, owner = pending.pop()
        for node in ast.iter_child_nodes(owner):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None and not is_overload(node):
                yield f"{where}:{node.lineno} {node.name}"
            if isinstance(node, ast.ClassDef):
                pending.append((where, node))


def is_overload(node: ast.AST) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in getattr(node, "decorator_list", []))


def test_every_public_name_has_a_docstring() -> None:
    assert not [name for module in modules() for name in public_without_docstring(module)]
    assert not [module.path for module in modules() if ast.get_docstring(module.tree) is None]


BOUNDARY = "kvwal/ports/boundary.py"


def test_no_handler_catches_everything() -> None:
    """But in the boundary of threads, tasks and callbacks, where an error has no caller."""
    broad = [
        f"{module.path}:{node.lineno}"
        for module in python_files()
        if module.path != BOUNDARY
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]
    assert not broad


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """A bare except, or one that names Exception or BaseException without raising again."""
    if handler.type is None:
        return True
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"} for name in names)
    raises_again = any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(handler))
    return broad and not raises_again


EDGES = {
    "Thread", "Timer", "create_task", "ensure_future", "add_done_callback", "call_soon", "call_soon_threadsafe", "call_later",
    "call_at", "run_coroutine_threadsafe", "run_in_executor", "to_thread", "add_signal_handler", "add_reader", "add_writer",
    "finalize", "register_at_fork", "JProxy", "JImplements",
}  # fmt: skip
"""Calls that have something run without a caller."""

# Where one stands outside the boundary, each with its reason.
EDGES_WITH_A_CALLER = {
    ("kvwal/store/aio/structure.py", "run_in_executor"): "awaited where it stands",
    ("kvwal/store/aio/waiting.py", "run_in_executor"): "awaited by those who call it",
    ("kvwal/ports/processes.py", "register_at_fork"): "what it calls goes through the boundary by itself",
    ("archive/kvwal_archive/objects/s3_closing.py", "run_coroutine_threadsafe"): (
        "a connection that nobody uses any more: if its end fails, its socket ends with the collection of what holds it"
    ),
}


def edges(module: Module) -> Iterator[tuple[str, str]]:
    """Threads, tasks and callbacks that are started with no owner for their errors, as (file, call)."""
    imports = [node for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom)]
    own = {name.name for node in imports if node.module == "kvwal.ports.boundary" for name in node.names}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if (name in EDGES and name not in own) or ast.unparse(node.func) in {"atexit.register", "signal.signal"}:
            yield module.path, ast.unparse(node.func) if name in {"register", "signal"} else name


def test_every_thread_task_and_callback_has_an_owner_for_its_errors() -> None:
    """It is started through the boundary: an error that leaves a thread, a task or a callback is lost otherwise."""
    found = {edge for module in modules() if module.path != BOUNDARY for edge in edges(module)}
    found.discard(("kvwal/ports/processes.py", "signal.signal"))  # only ever SIG_IGN, which runs nothing
    assert not found - EDGES_WITH_A_CALLER.keys()
    assert not EDGES_WITH_A_CALLER.keys() - found, "no longer needed: take it off the list"


def test_the_log_and_the_store_can_be_typed_by_their_users() -> None:
    assert all((ROOT / folder / "py.typed").exists() for folder in SOURCES)


DRAWS = {
    f"random.{name}"
    for name in ("choice", "choices", "randbytes", "randint", "random", "randrange", "sample", "shuffle")
}


def test_chance_in_tests_has_a_seed_that_can_be_given_again() -> None:
    """Tests draw from `random.Random(seed)`; only `tests.support.chance` draws from the module's own generator."""
    unseeded = [
        f"{module.path}:{node.lineno}"
        for module in python_files()
        if module.path.startswith("tests/") and module.path != "tests/support/chance.py"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and (ast.unparse(node.func) in DRAWS or ast.unparse(node) == "random.Random()")
    ]
    assert not unseeded
