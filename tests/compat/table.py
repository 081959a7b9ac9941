"""docs/compatibility.md, from what the client's tests came to on a plain member and on a node."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compat.reasons import ENTERPRISE, REASONS, named

_HEAD = """# Compatibility with Hazelcast's client tests

This page is the reference of the client tests that pass on a node. `make compat CLIENT_TESTS=FOLDER` writes it. The command
runs the integration tests of hazelcast-python-client {version}, each module on plain Hazelcast members and on nodes of kvwal.
The tests expect a remote controller; a stand-in for it starts the members (tests/compat). The nodes have their default
configuration, with two exceptions. They have `majority = false`, because some tests kill one of two members. They get the
properties of Hazelcast that a test sets in XML by `java_options`.

Two groups of tests are left out: the tests of TLS and authentication, which need Hazelcast's Enterprise edition, and the tests of
the client's asyncio face, which ask the same of members.

{total} A difference is a test that passes on plain members and not on nodes.
"needs Enterprise" marks a module of which each test asks a plain member for a feature of Hazelcast's Enterprise edition,
and "skips its tests" one whose author marked each test as skipped.

| module | plain members | nodes | differences |
|---|---|---|---|
"""
_ABSENT = ("absent", "")


class Module(NamedTuple):
    """The tests of one module that passed on each kind, and what the differences are called: None has no name.

    `unasked` says why no test asks a plain member for anything that it has; empty if a test does.
    """

    name: str
    plain: int
    node: int
    differences: dict[str, str | None]
    unasked: str

    @property
    def compares_nothing(self) -> bool:
        """No test passed on plain members, for another reason: the run says nothing of nodes."""
        return not self.plain and not self.unasked


def outcomes(file: Path) -> Iterator[tuple[str, str, str]]:
    """Test, outcome and what was said; a test whose call passed and whose end did not has failed."""
    found: dict[str, tuple[str, str, str]] = {}
    for line in file.read_text().splitlines():
        one = json.loads(line)
        if one["test"] not in found or one["outcome"] == "failed":
            found[one["test"]] = one["test"], one["outcome"], one["why"]
    yield from found.values()


def compare(plain: Path, node: Path) -> Module:
    """One module, of both kinds."""
    passed = {test for test, outcome, _ in outcomes(plain) if outcome == "passed"}
    failed = [said for _, outcome, said in outcomes(plain) if outcome == "failed"]
    there = {test: (outcome, said) for test, outcome, said in outcomes(node)}
    missing = sorted(test for test in passed if there.get(test, _ABSENT)[0] != "passed")
    differences = {test: named(test, there[test][1] if test in there else _of_class(test, there)) for test in missing}
    skipped = any(outcome == "skipped" for _, outcome, _ in outcomes(plain))
    unasked = ""
    if failed and not passed and all(map(ENTERPRISE.search, failed)):
        unasked = "needs Enterprise"
    elif skipped and not passed and not failed:
        unasked = "skips its tests"
    return Module(plain.stem, len(passed), len(passed) - len(differences), differences, unasked)


def _of_class(test: str, there: dict[str, tuple[str, str]]) -> str:
    """What the set-up of the test's class failed with, told at the first of its tests only."""
    own = test.rsplit("::", 1)[0]
    return next((said for name, (outcome, said) in there.items() if name.startswith(own) and outcome == "failed"), "")


def page(modules: list[Module], version: str, left: list[str]) -> str:
    """The page; `left` are the modules that were not run."""
    plain, node = (sum(found) for found in zip(*((module.plain, module.node) for module in modules), strict=True))
    total = f"Of {plain:,} tests that pass on plain members {node:,} pass on nodes."
    lines = [_HEAD.format(version=version, total=total)]
    for module in modules:
        lines.append(f"| {module.name} | {module.plain} | {module.node} | {_summary(module)} |\n")
    everywhere = Counter(name for module in modules for name in module.differences.values())
    lines.append("\n| name | tests | reason |\n|---|---|---|\n")
    lines += [f"| {one.name} | {everywhere[one.name]} | {one.text} |\n" for one in REASONS if everywhere[one.name]]
    if left:
        lines.append(f"\nNot run yet: {', '.join(left)}.\n")
    return "".join([*lines, *_unnamed(modules)])


def _summary(module: Module) -> str:
    if module.unasked:
        return module.unasked
    if module.compares_nothing:
        return "**no test passes on plain members**"
    counts = Counter(name or "**no name**" for name in module.differences.values())
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "-"


def _unnamed(modules: list[Module]) -> Iterator[str]:
    tests = [test for module in modules for test, name in module.differences.items() if name is None]
    if tests:
        yield "\n## Differences without a name\n\n"
        yield from (f"- `{test.removeprefix('tests/integration/')}`\n" for test in tests)


def write(found: Path, to: Path, version: str, every: list[str]) -> int:
    """Write the page, for those of `every` module that were run on both kinds; 0 when every difference has a name, else 1.

    A module of which no test passes on plain members gives 1 too, unless the tests need Enterprise or skip themselves.
    """
    files = sorted((found / "plain").glob("*.jsonl"))
    modules = [compare(file, found / "node" / file.name) for file in files if (found / "node" / file.name).exists()]
    there = {module.name for module in modules}
    to.write_text(page(modules, version, [name for name in every if name not in there]))
    unnamed = list(_unnamed(modules))
    print(*unnamed, sep="", end="")
    empty = [module.name for module in modules if module.compares_nothing]
    if empty:
        print(f"No test passes on plain members: {', '.join(empty)}. Run these modules again.")
    return 1 if unnamed or empty else 0
