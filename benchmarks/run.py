"""`make bench`: answers every question, or those named, keeps the results and writes docs/benchmarks.md anew.

With --quick everything runs once on tiny inputs and nothing is kept: it shows that the benchmarks work, and no figure.
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
    """Every question there is, in the order of the page."""
    return sorted(modules(), key=page.order)


def modules() -> dict[str, str]:
    """The module of each question, by the question's name."""
    found = pkgutil.walk_packages(questions.__path__, "benchmarks.questions.")
    return {module.name.rsplit(".", 1)[1]: module.name for module in found if not module.ispkg}


def answer(name: str, quick: bool) -> Result:
    """Measure one question."""
    module = importlib.import_module(modules()[name])
    with scratch(quick) as run:
        return Result(module.QUESTION, module.measure(run), host(), quick)


def main() -> int:
    """Run what was asked for; 0 when everything could be measured, met or not."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny inputs, nothing kept")
    parser.add_argument("names", nargs="*", help=f"only these of: {', '.join(names())}")
    asked = parser.parse_args()
    for name in asked.names or names():
        started = time.perf_counter()
        result = answer(name, asked.quick)
        print(f"{result.question.title}  ({time.perf_counter() - started:.0f} s)", flush=True)
        for row in result.rows:
            verdict = "tried" if asked.quick else "reached" if row.met else "MISSED"
            print(
                f"    {row.what}: {row.figure:,.4g} {row.figure_is}, {row.must} {row.target:,g}: {verdict}", flush=True
            )
        if not asked.quick:
            save(result)
    if not asked.quick:
        page.write()
        print("docs/benchmarks.md and its plots were written anew.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
