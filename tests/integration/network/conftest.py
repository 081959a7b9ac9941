"""Three nodes on a network that can be cut, for the tests of all files here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.network import Network, networked
from tests.support.cluster.nodes import Cluster


@pytest.fixture(scope="package")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Network]]:
    """Three members on a network that can be cut; each test leaves all of them serving."""
    with networked(tmp_path_factory.mktemp("three"), 3, config="[log]\narchive_seconds = 1\n") as made:
        yield made
