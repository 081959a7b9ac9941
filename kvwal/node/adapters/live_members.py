"""Membership: the living members, and what they publish to each other through maps of Hazelcast.

These maps have no log, and end with the last member. So a cluster that has just started knows nothing, and a member that joins a
running cluster learns that memory is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import jpype
import msgspec

from kvwal.cluster.bootstrap import FilledMemory, Status
from kvwal.cluster.clock_bounds import PublishedBound
from kvwal.cluster.quorum import Quorum
from kvwal.errors import ClusterUnreachable, ConfigError
from kvwal.node.jvm import java

AGREED = "__kvwal"
"""The map of agreements. A write to it returns when every member has it."""
STATUSES = "__kvwal.statuses"
"""The map of the members' statuses. A write to it returns at once, because a member that is joining may not confirm its copy for
seconds. A member that misses its own status publishes it again."""
NODE = "kvwal.node"
ADDRESS = "kvwal.address"
ARCHIVE = "kvwal.archive"
NAMESPACE = "kvwal.namespace"
BACKUPS = "kvwal.backups"
QUEUES = "kvwal.queues"
"""A member without this attribute is of a version that would log the items of queues as keys that it does not know."""
CONTENTS = "kvwal.contents"
"""A member without this attribute is of a version that could collect bytes in the archive before their name is logged."""
_RECOVERED = "recovered"
_QUORUM = "electorate"  # the key that members of older versions use, too
_ORPHAN = "orphan:"


class Peer(NamedTuple):
    """A living member: the UUID that Hazelcast gave it at this start, and its attributes."""

    member: str
    name: str
    address: str
    namespace: str
    archive: str
    backups: str = ""
    """Empty for a member of a version without this attribute."""


class KnownBound(NamedTuple):
    """A bound that this member knows: which one it is, its member's name, and how long ago it came here."""

    which: str
    name: str
    age_ms: int
    bound: PublishedBound


class _Members(NamedTuple):
    ids: str
    """As `HazelcastInternals.java` gives them."""
    own: Peer
    living: list[Peer]


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a killed member that are still to be adopted: bits of a number, as hexadecimal digits."""

    name: str
    partitions: str

    @property
    def count(self) -> int:
        """The number of these partitions."""
        return int(self.partitions, 16).bit_count()


class Membership:
    """The living members as one of them sees them. Every call may wait for other members: call it on a worker."""

    def __init__(self, instance: Any, bounds: Any, latest: Callable[[], Any], leases: Any) -> None:
        """`instance` is Hazelcast's, `bounds` ClockBounds.java, `latest` that of LatestTimestamps.java, `leases` Leases.java."""
        self._bounds = bounds
        self._latest = latest
        self._leases = leases
        self._cluster = instance.getCluster()
        self._map = instance.getMap(AGREED)
        self._statuses = instance.getMap(STATUSES)
        self._instance = instance
        self._ids = java("kvwal.node.HazelcastInternals").memberIds
        self._known = _Members("", _peer(self._cluster.getLocalMember()), [])

    @property
    def own(self) -> Peer:
        """This member. Hazelcast gives it another UUID after a merge of two halves of the cluster."""
        return self._members().own

    def living(self) -> list[Peer]:
        """All members, the oldest first."""
        return list(self._members().living)

    def _members(self) -> _Members:
        """The members now. Hazelcast is asked for their attributes only when others are there: each is a call into Java."""
        known, ids = self._known, str(self._ids(self._instance))
        if ids != known.ids:
            living = [_peer(member) for member in self._cluster.getMembers()]
            known = self._known = _Members(ids, _peer(self._cluster.getLocalMember()), living)
        return known

    def names(self) -> set[str]:
        """The names of all members, those included that have published nothing yet."""
        return {peer.name for peer in self.living()}

    def check(self) -> None:
        """`ConfigError` if this member does not fit the others: another member has its name, or has other settings."""
        own = self.own
        for other in self.living():
            if other.member == own.member:
                continue
            where = f"the member at {other.address}"
            if other.name == own.name:
                raise ConfigError(f"{where} is called {own.name} too.", hint="Give every node a --node of its own.")
            if other.namespace != own.namespace:
                raise ConfigError(
                    f"{where} is of the namespace {other.namespace!r}, this one of {own.namespace!r}.",
                    hint="Give every node the same --namespace.",
                )
            if other.archive != own.archive:
                raise ConfigError(
                    f"{where} has another archive: after a total loss neither would have all.",
                    hint="Give every node the same --archive, as a URL or as a folder that all of them reach.",
                )
            if other.backups and other.backups != own.backups:
                raise ConfigError(
                    f"{where} keeps backups = {other.backups} copies of each entry, and this one is told backups ="
                    f" {own.backups}: how many members may be lost would depend on the key.",
                    hint="Set the same backups in every node's file; to change it, stop all members and start them with the new"
                    " value.",
                )

    def tell(self, status: Status) -> None:
        """Publish the status of this member. The others see it from now on, unless the member that holds it is lost."""
        with _Asking():
            self._statuses.set(status.name, msgspec.json.encode(status).decode())

    def statuses(self) -> list[Status]:
        """The last status that each living member published since its start. If a status was lost: an older one, or none."""
        living = {peer.member for peer in self.living()}
        with _Asking():
            texts = [str(text) for text in self._statuses.values()]
        statuses = [msgspec.json.decode(text, type=Status) for text in texts]
        return [status for status in statuses if status.member in living]

    def recovered(self) -> FilledMemory | None:
        """The agreement that memory is whole; None while it is not."""
        with _Asking():
            text = self._map.get(_RECOVERED)
        return None if text is None else msgspec.json.decode(str(text), type=FilledMemory)

    def tell_recovered(self, recovered: FilledMemory) -> None:
        """Publish that memory is whole: all members may serve. Returns when every member knows."""
        with _Asking():
            self._map.set(_RECOVERED, msgspec.json.encode(recovered).decode())

    def publish_bound(self, which: str, bound: PublishedBound) -> None:
        """Publish a bound of this member's clock; a member may have several, by `which`. The bound stays when the member goes.
        Returns when every member knows."""
        with _Asking():
            self._bounds.publish(f"{which}:{self._known.own.name}", bound.limit, msgspec.json.encode(bound).decode())

    def refresh_bounds(self) -> None:
        """Ask all other members for the bounds that they know: a member that joins has missed the earlier ones."""
        with _Asking():
            self._bounds.refresh()

    def published_bounds(self) -> list[KnownBound]:
        """The bounds that this member knows, those of members that went included."""
        lines = str(self._bounds.published()).splitlines()
        keys = [key.split(":", 1) for key in lines[::3]]
        return [
            KnownBound(which, name, int(age), msgspec.json.decode(text, type=PublishedBound))
            for (which, name), age, text in zip(keys, lines[1::3], lines[2::3], strict=True)
        ]

    def latest_timestamps(self) -> dict[str, int]:
        """The latest timestamp of each other member, by the UUID that Hazelcast gave it: above it the member has given none to a
        partition that it does not own any more. A member is left out that cannot say that now, or has just gone."""
        with _Asking():
            found = [str(text) for text in self._latest()]
        return dict(zip(found[::2], map(int, found[1::2]), strict=True))

    def lease_seconds(self) -> float:
        """Seconds until the leases of all members that are gone have ended; 0 if they have."""
        with _Asking():
            return float(self._leases.remaining()) / 1000

    def note_orphans(self, expected: Collection[str]) -> None:
        """Note the partitions that each killed member among `expected` may have logged changes of. They are to be adopted."""
        living = {peer.member for peer in self.living()}
        gone: dict[tuple[str, str], int] = {}
        for _, name, _, bound in self.published_bounds():
            if bound.member not in living and name in expected:
                gone[name, bound.member] = gone.get((name, bound.member), 0) | int(bound.owned, 16)
        with _Asking():
            for (name, member), bits in gone.items():
                orphan = Orphan(name=name, partitions=f"{bits:x}")
                self._map.putIfAbsent(_ORPHAN + member, msgspec.json.encode(orphan).decode())

    def orphans(self) -> dict[str, Orphan]:
        """The partitions that are still to be adopted, by the UUID that Hazelcast gave the lost member."""
        with _Asking():
            texts = {key[len(_ORPHAN) :]: text for key, text in self._items() if key.startswith(_ORPHAN)}
        return {member: msgspec.json.decode(text, type=Orphan) for member, text in texts.items()}

    def unadopted(self, expected: Collection[str]) -> list[str]:
        """The `expected` members that were killed, are not back, and may have logged changes that no other log has."""
        gone = set(expected) - self.names()
        last = {known.name: known.bound.member for known in self.published_bounds()}
        orphans = self.orphans() if gone else {}
        done = {name for name in gone if name in last and last[name] in orphans and not orphans[last[name]].count}
        return sorted(gone - done)

    def adopted(self, member: str, partitions: str) -> int:
        """Note that these partitions of `member` are adopted. Returns, when every member knows, how many are left."""
        key = _ORPHAN + member
        with _Asking():
            while (before := self._map.get(key)) is not None:
                orphan = msgspec.json.decode(str(before), type=Orphan)
                left = int(orphan.partitions, 16) & ~int(partitions, 16)
                after = msgspec.structs.replace(orphan, partitions=f"{left:x}")
                if self._map.replace(key, before, msgspec.json.encode(after).decode()):
                    return after.count
        return 0

    def quorum(self) -> Quorum | None:
        """The quorum on which the members agreed; None while there is none."""
        with _Asking():
            text = self._map.get(_QUORUM)
        return None if text is None else msgspec.json.decode(str(text), type=Quorum)

    def compare_and_set_quorum(self, old: Quorum | None, new: Quorum) -> bool:
        """Replace the agreed quorum `old` by `new`; returns whether `old` was agreed on. Returns when every member knows."""
        after = msgspec.json.encode(new).decode()
        with _Asking():
            if old is None:
                return self._map.putIfAbsent(_QUORUM, after) is None
            return bool(self._map.replace(_QUORUM, msgspec.json.encode(old).decode(), after))

    def _items(self) -> list[tuple[str, str]]:
        return [(str(entry.getKey()), str(entry.getValue())) for entry in self._map.entrySet()]


class _Asking:
    """A context that turns errors of Hazelcast into `ClusterUnreachable`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, jpype.JException):
            raise ClusterUnreachable(
                f"the other members could not be asked: {error}.", hint="It is asked again."
            ) from error


def _peer(member: Any) -> Peer:
    words = (member.getAttribute(name) for name in (NODE, ADDRESS, NAMESPACE, ARCHIVE, BACKUPS))
    return Peer(str(member.getUuid()), *("" if word is None else str(word) for word in words))
