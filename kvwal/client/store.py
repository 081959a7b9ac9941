"""Store that `kvwal.connect` returns: the maps of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kvwal.client.address import ClusterAddress
from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.link import Link
from kvwal.structures.map import Map


class ClusterMap(Map):
    """A map of the cluster. It differs from an embedded map in these points:

    - A change returns when it is as durable as the flush policy of its node says; `sync` changes nothing.
    - The timestamp that a change returns is this client's clock at the answer. It is later than the log's timestamp if the
      clocks agree.
    - A read of many entries sees each entry at its own moment.
    - A put or a delete whose answer was lost is sent again for `timeout` seconds, so it may be done twice. A conditional change
      is never sent again after a lost answer; it raises `CommitUnknown`.
    - Several keys as one change (`put_many`, `transaction`) are all there or not at all, even if members or this client are
      killed. Other readers may see a part of it before the call returns.
    - `popitem` asks for all keys to find the first.
    """

    def __init__(self, business: ClusterBusiness, store: object) -> None:
        super().__init__(business, store)
        self._cluster = business

    def clear(self) -> None:
        """Delete every key that is there now, partition by partition, each key in its node's log first. Not one transaction.

        After a crash in the middle, or an error, some keys are gone, in no order, and the others are there: call it again.
        """
        self._cluster.clear()


class ClusterStore:
    """A connection to a cluster. Any number of threads may use it; leaving the `with` block closes it."""

    def __init__(self, address: ClusterAddress) -> None:
        self.namespace = address.namespace
        self.cluster = address.cluster
        self._link = Link(address)

    @property
    def hazelcast(self) -> Any:
        """Hazelcast's own client, for predicates on values stored as JSON. Its writes to maps are durable too."""
        return self._link.client

    def map(self, name: str) -> ClusterMap:
        """The map `name` of the cluster: the business of that name in every node's log."""
        self._link.check_open()
        return ClusterMap(ClusterBusiness(self._link, name, _call_here), store=self)

    def close(self) -> None:
        """Close the connection. Calls that wait for an answer fail with `CommitUnknown`. A second close does nothing."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _call_here(call: Callable[[], None]) -> None:
    call()
