"""Rejoin: after an absence, this member writes the changes again that its log has and memory lacks, as a client would."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import jpype

from kvwal.cluster.map_names import to_map
from kvwal.cluster.rejoin import Identity, RejoinComparison, Suspect, Value
from kvwal.errors import ClusterUnreachable, KvwalError
from kvwal.key_class import DROPPED, is_data
from kvwal.node.adapters.archive_requests import cluster_archive
from kvwal.node.adapters.live_members import Membership
from kvwal.node.adapters.quorum_membership import QuorumMembership
from kvwal.node.adapters.serving_membership import ServingMembership
from kvwal.node.jvm import java
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.ports.retries import retry_awaiting
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.engine import Engine

_AT_ONCE = 256
"""Keys that are locked at once, while all members archive: for about a second."""
_ARCHIVE_SECONDS = 5.0
"""The longest that a client waits for a locked key."""
_AGAIN_SECONDS = 10.0
_LOCK_SECONDS = 2
_LEASE_SECONDS = 60


class HazelcastMemory:
    """Hazelcast as the `LockableMemory` of `kvwal.cluster.rejoin`. A lock belongs to the thread that calls."""

    def __init__(self, instance: Any, clock: Clock) -> None:
        self._instance = instance
        self._clock = clock
        self._codec = java("kvwal.codec.ValueCodec")
        self._locked: list[tuple[str, Any]] = []
        self._logger = get_logger(__name__)

    def read(self, business: str, key: Identity) -> Value | None:
        """See `LockableMemory.read`. Hazelcast answers after all earlier changes of the key's partition."""
        held = java("kvwal.node.HazelcastInternals").held(self._instance, to_map(business), self._codec.toData(*key))
        return None if held is None else (str(held.name()), bytes(held.bytes()))

    def lock(self, business: str, key: Identity) -> None:
        """See `LockableMemory.lock`. The lock ends with this member, or after a minute."""
        name, seconds = to_map(business), java("java.util.concurrent.TimeUnit").SECONDS
        where = self._codec.toData(*key)
        self._locked.append((name, where))
        if not self._instance.getMap(name).tryLock(where, _LOCK_SECONDS, seconds, _LEASE_SECONDS, seconds):
            self._locked.pop()
            raise ClusterUnreachable(
                f"the key {key[1]!r} ({key[0]}) of the map {name} is locked by a client.", hint="It is tried again."
            )

    def unlock(self) -> None:
        """See `LockableMemory.unlock`. Locks that could not be released stay in the list for the next call."""
        left = []
        for name, where in self._locked:
            try:
                self._instance.getMap(name).unlock(where)
            except java("java.lang.IllegalMonitorStateException"):
                pass  # the lock has expired, or was never held
            except jpype.JException as error:
                left.append((name, where))
                self._logger.debug("a key is still locked", map=name, error=str(error))
        self._locked = left
        if left:
            raise ClusterUnreachable(f"{len(left)} keys could not be unlocked.", hint="It is tried again.")

    def compare_and_set(
        self, business: str, key: Identity, held: Value | None, value: Value | None, expires: int
    ) -> bool:
        """See `LockableMemory.compare_and_set`. Hazelcast compares the bytes, since `put_all` of a client does not heed locks."""
        map_, where = self._instance.getMap(to_map(business)), self._codec.toData(*key)
        old = None if held is None else self._codec.toData(*held)
        if value is None:
            return old is None or bool(map_.remove(where, old))
        new = self._codec.toData(*value)
        done = map_.putIfAbsent(where, new) is None if old is None else bool(map_.replace(where, old, new))
        if done and expires:
            left = max(1, expires - self._clock.wall_ms())
            map_.setTtl(where, left, java("java.util.concurrent.TimeUnit").MILLISECONDS)
        return done


class Rejoin:
    """The comparison of one member's log with memory. Used on the node's event loop."""

    def __init__(
        self,
        instance: Any,
        engine: Engine,
        serving: ServingMembership,
        membership: Membership,
        quorum_membership: QuorumMembership,
        logged: Mapping[str, int],
    ) -> None:
        """`instance` is Hazelcast's; `logged`: see `RejoinComparison`."""
        self._engine = engine
        self._memory = HazelcastMemory(instance, engine.options.clock)
        self._serving = serving
        self._logged = logged
        self._membership = membership
        self._quorum_membership = quorum_membership
        self._thread = ThreadWorkers("kvwal-compare", 1)  # the thread that locked a key must unlock it
        self._logger = get_logger(__name__).bind(node=membership.own.name)

    async def run(self) -> None:
        """Compare until it succeeds. Clients write meanwhile."""
        try:
            errors = (KvwalError, jpype.JException)
            counts = await retry_awaiting(self._compare, errors, self._failed, pause=_AGAIN_SECONDS)
        finally:
            self._thread.close()
        self._serving.note_compared()
        self._logger.info(
            "compared with the others after an absence", written_again={to_map(name): counts[name] for name in counts}
        )

    def _failed(self, error: Exception) -> None:
        self._logger.warning("could not be compared with the others after an absence", error=str(error))

    async def _compare(self) -> Counter[str]:
        await self._thread.run(self._memory.unlock)  # locks that the attempt before could not release
        before = await self._thread.run(self._living)
        await self._serving.all_archive()
        comparison = await self._thread.run(self._comparison)
        suspects = await self._thread.run(partial(comparison.suspects, self._serving.apart_ms))
        counts: Counter[str] = Counter()
        for first in range(0, len(suspects), _AT_ONCE):
            await self._thread.run(partial(self._check, before))
            counts += await self._again(comparison, suspects[first : first + _AT_ONCE], before)
        return counts

    def _comparison(self) -> RejoinComparison:
        context = self._engine.options
        return RejoinComparison(
            cluster_archive(self._engine), context.namespace, context.cluster, self._engine.node, self._memory,
            logged=self._logged, now_ms=context.clock.wall_ms(), skew_ms=int(context.settings.max_skew_seconds * 1000),
            mark=DROPPED, is_data=is_data,
        )  # fmt: skip

    async def _again(self, comparison: RejoinComparison, suspects: list[Suspect], before: set[str]) -> Counter[str]:
        """Write the changes again that no log has overwritten.

        The keys are locked while all members archive. So the archive shows every change of them, if no log is missing.
        """
        try:
            left = await self._thread.run(partial(comparison.lock, suspects))
            if not left:
                return Counter()
            await self._archive_soon()
            await self._thread.run(partial(self._check, before))
            return await self._thread.run(partial(comparison.write_again, left))
        finally:
            await self._thread.run(self._memory.unlock)

    async def _archive_soon(self) -> None:
        try:
            async with asyncio.timeout(_ARCHIVE_SECONDS):
                await self._serving.all_archive()
        except TimeoutError:
            raise ClusterUnreachable(
                f"not all members have archived within {_ARCHIVE_SECONDS:g} s.", hint="It is tried again."
            ) from None

    def _check(self, before: set[str]) -> None:
        """`ClusterUnreachable` if a member that is gone may have changed a key, and its log is not in the archive yet."""
        if before != self._living():
            raise ClusterUnreachable("members came or went meanwhile.", hint="It is tried again.")
        expected = self._quorum_membership.current
        if expected is not None and (gone := self._membership.unadopted(expected.names)):
            raise ClusterUnreachable(
                f"{', '.join(gone)} may have changed these keys last, and is gone.",
                hint="It is tried again when what it had is adopted, when it is back, or when a member is started --without it.",
            )

    def _living(self) -> set[str]:
        return {peer.member for peer in self._membership.living()}
