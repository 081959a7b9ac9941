"""Log copies: the logs on the disks of all members as one archive, to fill memory while the cluster's own archive is away.

Each member writes its logs as an archive into a folder of its own root that nothing else reads. The member that fills memory
fetches those of the others. So there is one way into memory, from the archive and from the disks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from kvwal.cluster import requests as questions
from kvwal.cluster.map_names import to_map
from kvwal.cluster.requests import Copied, CopyQuestion, PartQuestion
from kvwal.errors import ArchiveError
from kvwal.history.reads.map_rows import marks_of
from kvwal.hlc import to_text
from kvwal.node.adapters.live_members import Peer
from kvwal.ports.boundary import raised_to_awaiter, start_task
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal_archive.layout import parse_object_key, parse_registration_key
from kvwal_archive.maintenance.remove_log import has_puts
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.reader import live_objects
from kvwal_archive.registry import registered

FOLDER = "_copy"
_PART_BYTES = 4 << 20
_WITHIN_SECONDS = 600.0


class OwnCopy:
    """The copy of this member's logs. Used on the node's event loop."""

    def __init__(self, engine: Engine, readers: Workers) -> None:
        """On `readers` files are read and removed."""
        self._engine = engine
        self._readers = readers
        self._number = 0
        self._copying: asyncio.Task[Copied] | None = None
        self.folder = engine.options.root / FOLDER

    async def answer(self, question: CopyQuestion | PartQuestion) -> bytes:
        """The answer to the member that fills memory."""
        if isinstance(question, CopyQuestion):
            return questions.encode(await self.made(question.number))
        return await self._readers.run(partial(self._read, question))

    async def made(self, number: int) -> Copied:
        """The copy with this number. A new copy is made unless the last one has the same number."""
        if self._copying is None or number != self._number:
            if self._copying is not None:
                await asyncio.wait({self._copying})
            self._number = number
            self._copying = start_task(self._make(), raised_to_awaiter)
        return await asyncio.shield(self._copying)

    async def clear(self) -> None:
        """Remove it: memory is filled."""
        await self._readers.run(partial(self._engine.options.disk.remove_tree, self.folder))

    async def _make(self) -> Copied:
        await self.clear()
        left_out = {}
        for name, business in sorted(self._engine.businesses.items()):
            if business.log.appender.next_sequence > 1:
                left_out[name] = await business.maintenance.copy_to(str(self.folder))
        left_out |= await self._readers.run(self._retired)
        listed = await self._readers.run(partial(open_objects(str(self.folder)).list, ""))
        return Copied([(item.key, item.size) for item in listed], left_out)

    def _retired(self) -> dict[str, int]:
        """The last timestamp of each retired log, by business. The deletes of these logs are not on this disk."""
        ends = {name: self._engine.end_of(name) for name in self._engine.retired()}
        return {name: end.last_timestamp for name, end in ends.items() if end is not None}

    def _read(self, question: PartQuestion) -> bytes:
        if not (parse_object_key(question.key) or parse_registration_key(question.key)):
            raise ArchiveError(f"{question.key} is no object of an archive.")
        with open_objects(str(self.folder)).open(question.key) as file:
            file.seek(question.offset)
            return file.read(question.size)


class Copies:
    """The copies of all members, at the member that fills memory. Used on the node's event loop."""

    def __init__(
        self, own: OwnCopy, ask: Callable[[Peer, CopyQuestion | PartQuestion, float], Awaitable[bytes]], engine: Engine,
        readers: Workers,
    ) -> None:  # fmt: skip
        """`ask` asks another member: see `Peers.ask`."""
        self._own = own
        self._ask = ask
        self._engine = engine
        self._readers = readers

    async def gather(self, own: str, living: Iterable[Peer]) -> Objects:
        """Gather an archive of everything that the logs of the `living` members hold; `own` is the name of this member.
        `ArchiveError`, which names the maps, if a log may lack a delete that only the cluster's archive has."""
        number = self._engine.options.clock.random_bits(63)
        asking = {
            peer: start_task(self._copy(peer, number, is_own=peer.name == own), raised_to_awaiter) for peer in living
        }
        await asyncio.wait(asking.values())
        left_out = {}
        for peer, task in asking.items():
            copied = task.result()
            left_out[peer.name] = copied.left_out
            if peer.name != own:
                for key, size in copied.objects:
                    await self._fetch(peer, key, size)
        objects = open_objects(str(self._own.folder))
        options = self._engine.options
        where = (options.namespace, options.cluster)
        if lacking := await self._readers.run(partial(may_lack, objects, where, left_out)):
            raise ArchiveError(
                f"the disks alone do not tell what {', '.join(lacking)}.", hint="The archive does: memory waits for it."
            )
        return objects

    async def _copy(self, peer: Peer, number: int, *, is_own: bool) -> Copied:
        if is_own:
            return await self._own.made(number)
        said = await self._ask(peer, CopyQuestion(number), _WITHIN_SECONDS)
        return questions.decode_copied(said)

    async def _fetch(self, peer: Peer, key: str, size: int) -> None:
        disk = self._engine.options.disk
        path = self._own.folder / key
        await self._readers.run(partial(disk.make_folders, path.parent))
        file = await self._readers.run(partial(disk.create, path))
        try:
            for offset in range(0, size, _PART_BYTES):
                part = await self._ask(peer, PartQuestion(key, offset, _PART_BYTES), _WITHIN_SECONDS)
                await self._readers.run(partial(file.write_at, offset, [part]))
        finally:
            file.close()


def may_lack(objects: Objects, where: tuple[str, str], left_out: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The deletes that the disks may lack: sorted phrases, each with a map, a time and a member.

    A member's snapshot left out a delete of the map, and another member's log has an older put, newer than that log's own mark.
    The delete may have been of that put. `left_out`: node and business to the greatest timestamp of a delete left out.
    """
    deletes = []
    for node, businesses in left_out.items():
        for business, last in businesses.items():
            others = [place for place in registered(objects, *where, business) if place.node != node] if last else []
            own = marks_of(objects, (*where, business)).own if others else {}
            if any(has_puts(objects, live_objects(objects, o), own.get(o.node, 0), last) for o in others):
                deletes.append(f"was deleted from the map {to_map(business)!r} up to {to_text(last)} ({node})")
    return sorted(deletes)
