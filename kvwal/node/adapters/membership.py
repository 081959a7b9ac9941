"""What living members tell each other, through maps of Hazelcast that are memory only: they end with the last of them.

So a cluster that has just started knows nothing, and a member that joins a running one is told that memory is whole.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import jpype
import msgspec

from kvwal.cluster.bootstrap import Recovered, Status
from kvwal.cluster.clock_bounds import PublishedBound
from kvwal.cluster.quorum import Quorum
from kvwal.errors import ClusterUnreachable, ConfigError

AGREED = "__kvwal"
"""What members agree on: whoever writes to it goes on when every member has it."""
STATUSES = "__kvwal.statuses"
"""What each tells of itself. It goes on at once: a member that is just joining may leave a copy without an answer for seconds.
Whoever misses its own status tells it again."""
NODE = "kvwal.node"
ADDRESS = "kvwal.address"
ARCHIVE = "kvwal.archive"
NAMESPACE = "kvwal.namespace"
BACKUPS = "kvwal.backups"
_RECOVERED = "recovered"
_ELECTORATE = "electorate"
_ORPHAN = "orphan:"


class Peer(NamedTuple):
    """A living member: the number of this start, and what it says of itself."""

    member: str
    name: str
    address: str
    namespace: str
    archive: str
    backups: str = ""
    """Empty of a member of a version that did not say it."""


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to be adopted of a member that was killed: partitions, bits of a number as hexadecimal digits."""

    name: str
    partitions: str

    @property
    def count(self) -> int:
        """How many they are."""
        return int(self.partitions, 16).bit_count()


class Membership:
    """The living members as one of them sees them. Every call may wait for the others: call it on a worker."""

    def __init__(self, instance: Any, limits: Any, leases: Any) -> None:
        """`instance` is Hazelcast's, `limits` ClockBounds.java, `leases` Leases.java."""
        self._limits = limits
        self._leases = leases
        self._cluster = instance.getCluster()
        self._map = instance.getMap(AGREED)
        self._statuses = instance.getMap(STATUSES)
        self._own = _peer(self._cluster.getLocalMember())

    @property
    def own(self) -> Peer:
        """This member, by its number at the last look: Hazelcast gives another one after a merge of two halves."""
        self._own = _peer(self._cluster.getLocalMember())
        return self._own

    def living(self) -> list[Peer]:
        """All members, the oldest first."""
        return [_peer(member) for member in self._cluster.getMembers()]

    def names(self) -> set[str]:
        """Those of all members, whether they have told anything yet or not."""
        return {peer.name for peer in self.living()}

    def check(self) -> None:
        """`ConfigError` if this member cannot be one of these: another one has its name, or another archive."""
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
        """Let the others know: from now on they see it, unless the member that holds it is lost. See `statuses`."""
        with _Asking():
            self._statuses.set(status.name, msgspec.json.encode(status).decode())

    def statuses(self) -> list[Status]:
        """What each living member told since its start; of one whose status was lost an older one, or none."""
        living = {peer.member for peer in self.living()}
        with _Asking():
            found = [str(text) for text in self._statuses.values()]
        told = [msgspec.json.decode(text, type=Status) for text in found]
        return [status for status in told if status.member in living]

    def recovered(self) -> Recovered | None:
        """Whether memory is whole, and who said so; None while it is not."""
        with _Asking():
            found = self._map.get(_RECOVERED)
        return None if found is None else msgspec.json.decode(str(found), type=Recovered)

    def tell_recovered(self, recovered: Recovered) -> None:
        """Memory is whole: everybody may let clients in. Returns when every member knows."""
        with _Asking():
            self._map.set(_RECOVERED, msgspec.json.encode(recovered).decode())

    def tell_limit(self, which: str, told: PublishedBound) -> None:
        """A limit of this member's clock, of which it may have several. It stays when the member goes; returns when all know."""
        with _Asking():
            self._limits.publish(f"{which}:{self._own.name}", told.limit, msgspec.json.encode(told).decode())

    def ask_limits(self) -> None:
        """Learn what all others were told: whoever joins was not there."""
        with _Asking():
            self._limits.refresh()

    def told(self) -> list[tuple[str, str, PublishedBound]]:
        """The limits that this member knows, of those that went too: each with its `which` and the name of its member."""
        texts = [str(text) for text in self._limits.published()]
        keys = [key.split(":", 1) for key in texts[::2]]
        return [
            (which, name, msgspec.json.decode(text, type=PublishedBound))
            for (which, name), text in zip(keys, texts[1::2], strict=True)
        ]

    def lease_seconds(self) -> float:
        """After how long to ask again; 0 when no member that is gone can believe any more that the others count it in."""
        with _Asking():
            return float(self._leases.remaining()) / 1000

    def note_orphans(self, expected: Collection[str]) -> None:
        """Of each of the `expected` members that was killed: whatever it may have logged is to be adopted."""
        living = {peer.member for peer in self.living()}
        gone: dict[tuple[str, str], int] = {}
        for _, name, told in self.told():
            if told.member not in living and name in expected:
                gone[name, told.member] = gone.get((name, told.member), 0) | int(told.owned, 16)
        with _Asking():
            for (name, member), bits in gone.items():
                orphan = Orphan(name=name, partitions=f"{bits:x}")
                self._map.putIfAbsent(_ORPHAN + member, msgspec.json.encode(orphan).decode())

    def orphans(self) -> dict[str, Orphan]:
        """What is left to be adopted, by the number that Hazelcast gave the lost member."""
        with _Asking():
            found = {key[len(_ORPHAN) :]: text for key, text in self._items() if key.startswith(_ORPHAN)}
        return {member: msgspec.json.decode(text, type=Orphan) for member, text in found.items()}

    def unadopted(self, expected: Collection[str]) -> list[str]:
        """Those of the `expected` members that were killed, are not back, and may have changed what no other log says."""
        gone = set(expected) - self.names()
        last = {name: told.member for _, name, told in self.told()}
        orphans = self.orphans() if gone else {}
        done = {name for name in gone if name in last and last[name] in orphans and not orphans[last[name]].count}
        return sorted(gone - done)

    def adopted(self, member: str, partitions: str) -> int:
        """These are adopted. Returns, when every member knows, how many are left."""
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
        """Whose presence counts, as the members agreed; None while nobody has said."""
        with _Asking():
            found = self._map.get(_ELECTORATE)
        return None if found is None else msgspec.json.decode(str(found), type=Quorum)

    def exchange(self, old: Quorum | None, new: Quorum) -> bool:
        """Agree on `new`, if `old` is what is agreed on; whether it was. Returns when every member knows."""
        after = msgspec.json.encode(new).decode()
        with _Asking():
            if old is None:
                return self._map.putIfAbsent(_ELECTORATE, after) is None
            return bool(self._map.replace(_ELECTORATE, msgspec.json.encode(old).decode(), after))

    def _items(self) -> list[tuple[str, str]]:
        return [(str(entry.getKey()), str(entry.getValue())) for entry in self._map.entrySet()]


class _Asking:
    """Errors of Hazelcast become one of ours."""

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
