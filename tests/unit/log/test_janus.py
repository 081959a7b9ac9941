"""The queue of the ring leans on private names of janus. An upgrade fails here, and says which names it lacks or has changed.

The names are found in the source of the queue. `janus.json` has for each a checksum of the functions of janus that use it.
To move the pin: read what changed there, mend the queue, and write the checksums anew:

    PYTHONPATH=. python -m tests.unit.log.test_janus
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

import janus
import pytest

from kvwal.log.bounded_queue import BoundedQueue
from tests.repository.source import ROOT

RECORD = Path(__file__).with_name("janus.json")


@cache
def names_used() -> set[str]:
    """The private names of janus that the queue uses or overrides: all those in its source, without its own attributes."""
    [queue] = ast.parse(inspect.getsource(BoundedQueue)).body
    assigned = [node for node in ast.walk(queue) if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [target for node in assigned for target in getattr(node, "targets", [getattr(node, "target", None)])]
    own = {target.attr for target in targets if isinstance(target, ast.Attribute)}
    return {name for node in ast.walk(queue) for name in named(node) if re.match("_[^_]", name)} - own


def named(node: ast.AST) -> Iterator[str]:
    """The name of a method, or of an attribute of `self`."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        yield node.attr


@cache
def functions(source: str) -> list[str]:
    """The text of each function in a source."""
    lines, kinds = source.splitlines(), ast.FunctionDef | ast.AsyncFunctionDef
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    return ["\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in found]


def checksum(name: str, source: str) -> str | None:
    """Of the functions in a source that define or use an attribute of this name; None if there are none."""
    using = [text for text in functions(source) if re.search(rf"\b{name}\b", text)]
    return hashlib.sha256("\n".join(using).encode()).hexdigest()[:16] if using else None


def problems(source: str, recorded: Mapping[str, str], which: str) -> list[str]:
    """A sentence for each private name that a source of janus lacks or has changed, or that is not on record."""
    found = []
    for name in sorted(names_used() | recorded.keys()):
        now = checksum(name, source)
        if name not in names_used():
            found.append(f"kvwal.log.bounded_queue no longer uses `{name}` of janus: write {RECORD.name} anew.")
        elif now is None:
            found.append(f"{which} has no `{name}`, which kvwal.log.bounded_queue leans on.")
        elif name not in recorded:
            found.append(
                f"kvwal.log.bounded_queue leans on `{name}` of janus, which is not in {RECORD.name}: write it anew."
            )
        elif now != recorded[name]:
            found.append(f"{which} has changed how it uses `{name}`, which kvwal.log.bounded_queue leans on.")
    return found


def record() -> dict[str, str]:
    recorded: dict[str, str] = json.loads(RECORD.read_text())
    return recorded


def test_janus_has_what_the_queue_leans_on_as_it_was() -> None:
    found = problems(inspect.getsource(janus), record(), f"janus {version('janus')}")
    assert not found, "\n".join([*found, inspect.cleandoc(__doc__ or "")])


@pytest.mark.parametrize("name", sorted(names_used()))
def test_a_name_that_janus_lacks_or_changed_is_told(name: str) -> None:
    source = inspect.getsource(janus)
    lacking = problems(re.sub(rf"\b{name}\b", f"{name}_renamed", source), record(), "janus 9")
    assert f"janus 9 has no `{name}`, which kvwal.log.bounded_queue leans on." in lacking
    changed = problems(source, record() | {name: "another"}, "janus 9")
    assert f"janus 9 has changed how it uses `{name}`, which kvwal.log.bounded_queue leans on." in changed


def test_exactly_one_version_of_janus_is_pinned() -> None:
    pins = [
        re.search(r'^ *"?janus([^",\n]*)', (ROOT / file).read_text(), re.MULTILINE)
        for file in ("pyproject.toml", "constraints.txt")
    ]
    assert [pin and pin[1] for pin in pins] == [f"=={version('janus')}"] * 2


if __name__ == "__main__":
    sums = {name: checksum(name, inspect.getsource(janus)) for name in sorted(names_used())}
    RECORD.write_text(json.dumps(sums, indent=1) + "\n")
