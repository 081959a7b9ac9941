"""The command of `make bench`: measure all questions, or the named ones, store the results and regenerate docs/benchmarks.md.

With --quick each question runs once on tiny inputs and no result is stored. That checks the code of the benchmarks.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time

from benchmarks import page, questions, readme, scale_page
from benchmarks.harness import Result, Row, host, save, scratch


def names() -> list[str]:
    """The names of all questions, in the order of the page."""
    return sorted(modules(), key=page.order)


def modules() -> dict[str, str]:
    """The module of each question, by the question's name."""
    packages = pkgutil.walk_packages(questions.__path__, "benchmarks.questions.")
    return {module.name.rsplit(".", 1)[1]: module.name for module in packages if not module.ispkg}


def chosen(wanted: list[str]) -> list[str]:
    """The questions of these names, or of the groups of these names; all of them if there are none."""
    groups: dict[str, list[str]] = {}
    for name in names():
        groups.setdefault(modules()[name].split(".")[-2], []).append(name)
    return [name for word in wanted for name in groups.get(word, [word])] or names()


def answer(name: str, quick: bool, most: int | None) -> Result:
    """Measure one question."""
    module = importlib.import_module(modules()[name])
    with scratch(quick, most) as run:
        return Result(module.QUESTION, module.measure(run), host(), quick)


def line(row: Row, quick: bool) -> str:
    """A row as the command prints it."""
    figure = f"{row.name}: {row.figure:,.4g} {row.figure_is}"
    if row.must == "no target":
        return figure
    verdict = "tried" if quick else "reached" if row.met else "MISSED"
    return f"{figure}, {row.must} {row.target:,g}: {verdict}"


def main() -> int:
    """Measure the questions. 0 if all were measured, also where a target was missed."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny inputs, no stored result")
    parser.add_argument("--rounds", type=int, help="the most rounds of anything; fewer are quicker, and say less")
    parser.add_argument(
        "names",
        nargs="*",
        help="measure only these, or the groups embedded, archive, cluster, spark, console, provenance, pipeline, peers, "
        "growth, of: " + ", ".join(names()),
    )
    options = parser.parse_args()
    for name in chosen(options.names):
        started = time.perf_counter()
        result = answer(name, options.quick, options.rounds)
        print(f"{result.question.title}  ({time.perf_counter() - started:.0f} s)", flush=True)
        for row in result.rows:
            print(f"    {line(row, options.quick)}", flush=True)
        if not options.quick:
            save(result)
    if not options.quick:
        page.write()
        scale_page.write()
        readme.write()
        print("docs/benchmarks.md with its plots, docs/scale.md and the README's figures were regenerated.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
