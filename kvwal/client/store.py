"""Store that `kvwal.connect` returns: the maps of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from kvwal.client.address import ClusterAddress
from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.contents.calls import ContentCalls
from kvwal.client.contents.content import ClusterContents
from kvwal.client.figures.members import described, figures_of_all
from kvwal.client.link import Link
from kvwal.client.member_tasks import MapChanges, ask_failures, ask_objects
from kvwal.client.queues.blocks import Renewals
from kvwal.client.queues.calls import QueueCalls
from kvwal.client.queues.queue import ClusterQueue
from kvwal.client.queues.structures import ClusterStructures
from kvwal.client.wire import Encoded
from kvwal.cluster.figures.messages import ClusterMember as ClusterMember
from kvwal.cluster.figures.messages import MemberFigures
from kvwal.cluster.map_names import has_log
from kvwal.cluster.requests import Failures, decode_failures
from kvwal.errors import ClusterUnreachable
from kvwal.structures.handle import Handle
from kvwal.structures.map.map import Map
from kvwal.structures.provenance.state import not_in_cluster

MAP_SERVICE = "hz:impl:mapService"


class ClusterMap(Map):
    """A map of the cluster. It differs from an embedded map in these points:

    - A change returns when it is as durable as the flush policy of its node says; `sync` changes nothing.
    - The timestamp that a change returns is that of the log. Where the member that answers does not know it, it is this client's
      clock at the answer (docs/cluster-semantics.md says where).
    - A read of many entries sees each entry at its own moment.
    - A put or a delete whose answer was lost is sent again for `timeout` seconds, so it may be done twice. A conditional change
      is never sent again after a lost answer; it raises `CommitUnknown`.
    - Several keys as one change (`put_many`, `transaction`) are all there or not at all, even if members or this client are
      killed. Other readers may see a part of it before the call returns.
    - `popitem` asks for all keys to find the first.
    - `watch` gives late what a killed member brings back with its disk: with timestamps below those that were given before.
    """

    def __init__(self, business: ClusterBusiness, store: object) -> None:
        super().__init__(business, store)
        self._cluster = business

    def logged_changes(self) -> MapChanges:
        """The changes of the map in the logs of all nodes, for a reader that keeps its place itself. `watch` keeps it."""
        return self._cluster.changes()

    def identities(self, prefix: str = "") -> list[Encoded]:
        """Bytes and class of every key, in key order. No value is transferred.

        With a `prefix` keys that are text and do not begin so may be missing.
        """
        return self._cluster.state.identities(prefix)

    def clear(self) -> None:
        """Delete every key that is there now, partition by partition, each key in its node's log first. Not one transaction.

        After a crash in the middle, or an error, some keys are gone, in no order, and the others are there: call it again.
        """
        self._cluster.clear()


class ClusterStore(Handle):
    """A connection to a cluster. Any number of threads may use it; leaving the `with` block closes it."""

    def __init__(self, address: ClusterAddress) -> None:
        self.namespace = address.namespace
        self.cluster = address.cluster
        self._link = Link(address)
        self._renewals = Renewals()

    def __repr__(self) -> str:
        return f"<ClusterStore of {self._link.address}>"

    @property
    def address(self) -> ClusterAddress:
        """The address that this was connected with."""
        return self._link.address

    @property
    def hazelcast(self) -> Any:
        """Hazelcast's own client, for predicates on values stored as JSON. Its writes to maps are durable too."""
        return self._link.client

    def map(self, name: str) -> ClusterMap:
        """The map `name` of the cluster, with a log of that name on every node."""
        return ClusterMap(self.log_of(name), store=self)

    def queue(self, name: str) -> ClusterQueue:
        """The queue of the business `name`: see `ClusterQueue`."""
        return self.business(name).queue()

    def content(self, name: str) -> ClusterContents:
        """The contents of the business `name`: see `ClusterContents`."""
        return self.business(name).content()

    def business(self, name: str) -> ClusterStructures:
        """The business `name`, with its maps, queues and contents, which commit together."""
        return make_structures(self._link, self._renewals, name, self)

    def provenance(self, name: str) -> NoReturn:
        """Raise `ConfigError`: a cluster has no provenance."""
        raise not_in_cluster(name)

    def log_of(self, name: str) -> ClusterBusiness:
        """The business of the map `name`: memory, history and changes by the bytes of keys."""
        return _log_of(self._link, name)

    def maps(self) -> list[str]:
        """Names of the existing maps that have a log, sorted. Raises `NotRecovered` while the cluster loads its memory."""
        named = self._link.result(partial(ask_objects, self._link.client), str(self._link.address))
        return sorted(info.name for info in named if info.service_name == MAP_SERVICE and has_log(info.name))

    def members(self) -> list[ClusterMember]:
        """The members of the cluster as this client knows them, oldest first."""
        self._link.check_open()
        members = self._link.client.cluster_service.get_members()
        return [described(member) for member in members]

    def figures(self, within: float) -> list[MemberFigures]:
        """The figures of each member, oldest member first, also of those that wait or load. Waits at most `within` seconds."""
        self._link.check_open()
        return figures_of_all(self._link, within)

    def failures(self, member: ClusterMember) -> Failures:
        """The failures of a member's logs and of their maintenance. Raises `ClusterUnreachable` if it has gone."""
        self._link.check_open()
        for one in self._link.client.cluster_service.get_members():
            if described(one).address == member.address:
                told = self._link.result(partial(ask_failures, self._link.client, one), member.address)
                return decode_failures(bytes(told))
        raise ClusterUnreachable(f"{member.address} is no member of the cluster any more.", hint="Ask again.")

    def close(self) -> None:
        """Close the connection. Calls that wait for an answer fail with `CommitUnknown`. A second close does nothing."""
        self._renewals.close()
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_structures(link: Link, renewals: Renewals, name: str, store: object) -> ClusterStructures:
    """The business `name`, as threads use it. It keeps a reference to `store`."""
    log = _log_of(link, name)
    calls = QueueCalls(link, name, log.codecs)
    return ClusterStructures(log, calls, ContentCalls(link, log, calls), renewals, ClusterMap(log, store))


def _log_of(link: Link, name: str) -> ClusterBusiness:
    return ClusterBusiness(link, name, _call_here)


def _call_here(call: Callable[[], None]) -> None:
    call()
