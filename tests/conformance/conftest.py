"""Every test here runs on an embedded store and on a cluster of three nodes: to its callers a map is the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.structures.map.map import Map
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast

_NUMBERS = count(1)


@pytest.fixture(scope="package")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes for all tests here: each has a map of its own."""
    with cluster(tmp_path_factory.mktemp("conformance"), 3) as made:
        yield made


@pytest.fixture(scope="module")  # other tests count the children of this process: its archiver must not stay
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with kvwal.open(tmp_path_factory.mktemp("embedded"), archive=None, flush="os") as store:
        yield store


@pytest.fixture(scope="package")
def connected(three: Cluster) -> Iterator[Any]:
    with kvwal.connect([node.address for node in three.nodes], cluster=CLUSTER) as store:
        yield store


@pytest.fixture(params=["embedded", pytest.param("connected", marks=needs_hazelcast)])
def store(request: pytest.FixtureRequest) -> Any:
    """A store of either kind, which all tests share."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def jobs(store: Any) -> Map:
    """A map that no other test has."""
    found: Map = store.map(f"jobs-{next(_NUMBERS)}")
    return found


@pytest.fixture(params=["embedded", pytest.param("connected", marks=needs_hazelcast)])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A call that gives an asynchronous store of either kind."""
    if request.param == "embedded":
        return lambda: kvwal.aio.open(tmp_path, archive=None, flush="os")
    three: Cluster = request.getfixturevalue("three")
    return lambda: kvwal.aio.connect(three.nodes[0].address, cluster=CLUSTER)
