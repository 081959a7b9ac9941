"""The command of `make bench`: measure all questions, or the named ones, store the results and regenerate docs/benchmarks.md.

With --quick each question runs once on tiny inputs and no result is stored. That checks the code of the benchmarks.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time

from benchmarks import page, questions
from benchmarks.harness import Result, host, save, scratch


def names() -> list[str]:
    """The names of all questions, in the order of the page."""
    return sorted(modules(), key=page.order)


def modules() -> dict[str, str]:
    """The module of each question, by the question's name."""
    packages = pkgutil.walk_packages(questions.__path__, "benchmarks.questions.")
    return {module.name.rsplit(".", 1)[1]: module.name for module in packages if not module.ispkg}


def answer(name: str, quick: bool) -> Result:
    """Measure one question."""
    module = importlib.import_module(modules()[name])
    with scratch(quick) as run:
        return Result(module.QUESTION, module.measure(run), host(), quick)


def main() -> int:
    """Measure the questions. 0 if all were measured, also where a target was missed."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny inputs, no stored result")
    parser.add_argument("names", nargs="*", help=f"measure only these of: {', '.join(names())}")
    options = parser.parse_args()
    for name in options.names or names():
        started = time.perf_counter()
        result = answer(name, options.quick)
        print(f"{result.question.title}  ({time.perf_counter() - started:.0f} s)", flush=True)
        for row in result.rows:
            verdict = "tried" if options.quick else "reached" if row.met else "MISSED"
            print(
                f"    {row.name}: {row.figure:,.4g} {row.figure_is}, {row.must} {row.target:,g}: {verdict}", flush=True
            )
        if not options.quick:
            save(result)
    if not options.quick:
        page.write()
        print("docs/benchmarks.md and its plots were regenerated.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
