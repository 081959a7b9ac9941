"""One Spark a test run: what it wrote is made once, and its last session serves the tests of the live recorder."""

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
