"""What the tests of several files share: the Spark of a run, and one node for a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Event logs that Spark wrote, and the root that its recorders wrote meanwhile (see `tests.support.spark.Written`)."""
    import kvwal
    from kvwal.spark import record_event_logs
    from tests.support.spark import session, write_logs

    def read_alongside(log: Path, root: Path) -> None:
        with kvwal.open(root, node="reader") as store:
            record_event_logs(store, [log])

    yield write_logs(tmp_path_factory.mktemp("spark"), read_alongside)
    session("second").stop()


@pytest.fixture(scope="session")
def spark(written: Any) -> Any:
    """The session of the second application, which still runs."""
    from tests.support.spark import session

    return session("second")


@pytest.fixture
def inspected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are started let clients look into the members' own maps."""
    from tests.support.cluster.nodes import INSPECTED

    monkeypatch.setenv("JAVA_TOOL_OPTIONS", INSPECTED)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One node for the tests of a file: each test has maps of its own."""
    from tests.support.cluster.nodes import running

    with running(tmp_path_factory.mktemp("node") / "root") as node:
        yield node


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three members for the tests of a file; each test leaves all of them serving."""
    from tests.support.cluster.nodes import cluster

    with cluster(tmp_path_factory.mktemp("members"), 3) as made:
        yield made


@pytest.fixture(scope="module")
def client(node: Any) -> Iterator[Any]:
    """A plain client of that node."""
    with node.client() as client:
        yield client
