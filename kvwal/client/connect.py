"""Connection to a cluster: the arguments are checked first; Hazelcast's client is loaded after the check found its package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from kvwal.client.address import check_address

if TYPE_CHECKING:
    from kvwal.client.store import ClusterStore


def connect(addresses: str | Sequence[str], **options: Any) -> ClusterStore:
    """The maps of a running cluster. Arguments and errors are those of `kvwal.connect`, whose store answers SQL too."""
    address = check_address(addresses, **options)
    from kvwal.client.store import ClusterStore

    return ClusterStore(address)


def is_cluster(store: object) -> TypeGuard[ClusterStore]:
    """Whether an open store is that of a cluster. Hazelcast's client is not loaded to find out: an open store has done so."""
    module = sys.modules.get("kvwal.client.store")
    return module is not None and isinstance(store, module.ClusterStore)
