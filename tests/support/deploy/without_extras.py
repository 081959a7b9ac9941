"""The command line as it is where kvwal was installed without any extra.

python -m tests.support.deploy.without_extras WORD…
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from types import ModuleType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def plain_requirements() -> list[str]:
    """What the wheel requires without an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def installed_with(requirements: list[str]) -> set[str]:
    """The canonical names of the distributions that some requirements bring, with those that these require."""
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(Requirement(text), frozenset[str]()) for text in requirements]
    while todo:
        needed, extras = todo.pop()
        if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        name, own = canonicalize_name(needed.name), frozenset(needed.extras)
        if (name, own) not in seen:
            seen.add((name, own))
            todo += [(Requirement(text), own) for text in requires(name) or ()]
    return {name for name, _ in seen}


def hidden_packages() -> set[str]:
    """The importable packages of this environment that are not there where kvwal was installed without any extra."""
    there = installed_with(plain_requirements()) | {"kvwal"}
    return {
        package
        for package, owners in packages_distributions().items()
        if there.isdisjoint(map(canonicalize_name, owners))
    }


class WithoutPackages:
    """Finds modules as Python's own finder does, but none of some packages."""

    def __init__(self, hidden: set[str]) -> None:
        self._hidden = hidden

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self._hidden:
            return None
        return PathFinder.find_spec(name, path, target)

    # Packages ask for their own versions.
    find_distributions = staticmethod(PathFinder.find_distributions)
    invalidate_caches = staticmethod(PathFinder.invalidate_caches)


def main() -> None:
    """Run the command that was typed."""
    hidden = hidden_packages()
    for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[name]
    sys.meta_path[:] = [WithoutPackages(hidden) if finder is PathFinder else finder for finder in sys.meta_path]
    from kvwal.cli.main import main as kvwal

    kvwal()


if __name__ == "__main__":
    main()
