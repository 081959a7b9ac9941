"""`kvwal.connect`: the arguments are checked first; Hazelcast's client is loaded after the check found its package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from kvwal.client.address import check_address

if TYPE_CHECKING:
    from kvwal.client.store import ClusterStore
    from kvwal.location.cluster_store import QueryStore


def connect(
    addresses: str | Sequence[str],
    *,
    cluster: str = "local",
    namespace: str = "default",
    timeout: float = 30.0,
    token: str | None = None,
    authority: str | None = None,
) -> QueryStore:
    """A store whose maps are those of a running cluster; `with` closes it. It answers SQL, as a store that was opened does.

    `addresses` are some of the cluster's nodes, `host:port` (a list, or text with commas), or the cluster's location
    (`kvwal://host:port`). The client finds the other nodes through them.
    `timeout` is how many seconds a read, a put or a delete is repeated while no node answers, or while the cluster loads its
    memory.
    `token` is the cluster's token, if the cluster has one. The default comes from KVWAL_TOKEN_FILE or KVWAL_TOKEN of the
    environment.
    `authority` is the PEM file to check the nodes' certificates with, if the nodes speak TLS. The default comes from
    KVWAL_AUTHORITY of the environment.

    Raises `ClusterUnreachable`, and `ConfigError` if the cluster serves another namespace, or the package is missing.
    """
    address = check_address(addresses, cluster, namespace, timeout, token, authority)
    from kvwal.location.cluster_store import QueryStore

    return QueryStore(address)


def is_cluster(store: object) -> TypeGuard[ClusterStore]:
    """Whether an open store is that of a cluster. Hazelcast's client is not loaded to find out: an open store has done so."""
    module = sys.modules.get("kvwal.client.store")
    return module is not None and isinstance(store, module.ClusterStore)
