"""Contents of a cluster are refused by a sentence, by every way to ask for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ConfigError
from tests.support.cli import kvwal as command
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running

pytestmark = needs_hazelcast
REFUSED = "contents of a cluster are not served yet; nothing was read or written"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("node")) as made:
        yield made


def in_block(store: Any) -> None:
    with store.business("files").transaction() as t:
        t.content()


ASKED: dict[str, Callable[[Any], object]] = {
    "the store": lambda store: store.content("files"),
    "a business": lambda store: store.business("files").content("logs"),
    "a transaction": in_block,
}


@pytest.mark.parametrize("asked", ASKED)
def test_threads_are_told(node: Node, asked: str) -> None:
    with kvwal.connect(node.address, cluster=CLUSTER) as store, pytest.raises(ConfigError, match=REFUSED):
        ASKED[asked](store)


def test_tasks_are_told(node: Node) -> None:
    async def main() -> None:
        async with kvwal.aio.connect(node.address, cluster=CLUSTER) as store:
            with pytest.raises(ConfigError, match=REFUSED):
                store.content("files")
            with pytest.raises(ConfigError, match=REFUSED):
                store.business("files").content("logs")
            async with store.business("files").transaction() as t:
                with pytest.raises(ConfigError, match=REFUSED):
                    t.content()

    asyncio.run(main())


def test_the_command_line_says_so_before_it_connects(node: Node, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for typed in (["get", "files", "a"], ["put", "files", "a", tmp_path / "file"]):
        ran = command("content", typed[0], f"kvwal://{node.address}", *typed[1:], "--cluster", CLUSTER)
        assert (ran.code, REFUSED in ran.err) == (2, True)
