"""What `kvwal.connect` gives: the maps of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.connect import ClusterAddress
from kvwal.client.link import Link
from kvwal.structures.map import Map


class ClusterMap(Map):
    """A map of the cluster. What is different from an embedded one:

    A change returns when it is as durable as its node's flush policy says, whatever `sync` is. The timestamp that it returns
    is this client's clock at the answer: later than that of the log if the clocks agree. What walks over many entries sees each
    at its own moment. A put or a delete whose answer was lost is sent again for `timeout` seconds, so it may be done twice; a
    conditional one never is, and raises `CommitUnknown`. Several keys as one (`put_many`, `transaction`) are all there or not at
    all, whoever is killed, but others may see a part before this returns. `popitem` asks for all keys to find the first.
    """

    def __init__(self, business: ClusterBusiness, store: object) -> None:
        super().__init__(business, store)
        self._cluster = business

    def clear(self) -> None:
        """Delete every key that is there now, partition by partition, each key in its node's log first. Not one transaction.

        After a crash in the middle, or an error, some keys are gone, in no order, and the rest is there: call it again.
        """
        self._cluster.clear()


class ClusterStore:
    """A connection to a cluster. Any number of threads may use it; leaving the `with` block closes it."""

    def __init__(self, target: ClusterAddress) -> None:
        self.namespace = target.namespace
        self.cluster = target.cluster
        self._link = Link(target)

    @property
    def hazelcast(self) -> Any:
        """Hazelcast's own client, for predicates on what is stored as JSON. What it writes to maps is durable too."""
        return self._link.client

    def map(self, name: str) -> ClusterMap:
        """The map `name` of the cluster: the business of that name in every node's log."""
        self._link.check_open()
        return ClusterMap(ClusterBusiness(self._link, name, _here), store=self)

    def close(self) -> None:
        """Let go of the cluster. What waits for an answer fails with `CommitUnknown`. Calling it again does nothing."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _here(call: Callable[[], None]) -> None:
    call()
