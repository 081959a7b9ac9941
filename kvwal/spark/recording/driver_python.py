"""The Python that records: `kvwal-python FILE ARGUMENTS…` runs a program as Python does, and records its Spark applications.

spark-submit starts a Python application as `<spark.pyspark.driver.python> FILE ARGUMENTS…`. With `kvwal-python` there the
application is recorded without a line of code: the recorder begins when the program has made its SparkContext.
"""

from __future__ import annotations

import builtins
import os
import sys
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from kvwal.ports.boundary import contain
from kvwal.ports.children.interpreter import interpreter
from kvwal.spark.recording.recorder import log_not_recorded, record


def main() -> None:
    """Run the program that the command line names. Any other command line is Python's: it runs Python, which records nothing.

    The program's exit code is that of this process.
    """
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("-") or not Path(arguments[0]).is_file():
        sys.stderr.write("kvwal-python: nothing is recorded: only a program in a file is, as spark-submit starts it.\n")
        python = interpreter()
        os.execv(python, [python, *arguments])
    record_contexts()
    code = None
    try:
        run_program(*arguments)
    except SystemExit as leaving:
        code = leaving.code
    # The watch of Python's end sees this call. It sees no `raise SystemExit`, and no call that was looked up before it began.
    sys.exit(code)


def run_program(file: str, *arguments: str) -> None:
    """Run the program in `file` as the module `__main__`, with these arguments, as `python FILE ARGUMENTS…` does."""
    sys.argv[:] = [file, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(file).resolve().parent)
    program = ModuleType("__main__")
    vars(program).update(__file__=file, __builtins__=builtins)
    sys.modules["__main__"] = program
    code = compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
    exec(code, vars(program))  # noqa: S102 - this process was started to run the program


def record_contexts() -> None:
    """Record each SparkContext that this process makes, from when it has begun. Nothing where pyspark is not installed."""
    try:
        from pyspark import SparkContext
    except ImportError:
        return

    begin = SparkContext.__init__

    @wraps(begin)
    def begin_recorded(context: SparkContext, *arguments: Any, **options: Any) -> None:
        begin(context, *arguments, **options)
        contain(lambda: record(context), log_not_recorded)

    SparkContext.__init__ = begin_recorded  # type: ignore[method-assign,assignment]
