"""One node for the tests of a module that ask what a member does with a client's message."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.nodes import INSPECTED, Node, running


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose own maps a test may look into; each test has a map of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", INSPECTED)
        with running(tmp_path_factory.mktemp("one") / "root") as node:
            yield node
