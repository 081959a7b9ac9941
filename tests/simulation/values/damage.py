"""What is told of a large value whose bytes are damaged or absent: of that value the truth, and of the others nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kvwal import aio
from kvwal.content.claim import Claim, claim_of
from kvwal.content.folder import claim_path
from kvwal.entry import Entry, is_claimed
from kvwal.errors import ContentDamaged, ContentMissing
from kvwal.store.open_business import OpenBusiness
from kvwal.structures.queue.positions import is_of_queue, item_class, key_of, queue_named, queue_structure
from tests.simulation.history import ABSENT, Violation, short
from tests.simulation.ledger import Ledger, name_of
from tests.simulation.queues.checker import UNREAD
from tests.simulation.values.large import archived, is_right, stored
from tests.simulation.world import World

_WAYS = ("absent", "damaged")


class Damage:
    """Damages or removes claim files on a quiet day, after all else was looked at, and reads what they had."""

    def __init__(self, world: World, ledger: Ledger, store: aio.Store, business: OpenBusiness) -> None:
        self._world = world
        self._ledger = ledger
        self._store = store
        self._disk = world.machine.memory
        self._live = {
            name_of(entry): entry
            for entry in business.memory.latest_kept()
            if is_claimed(entry.value_class) and entry.expires == 0 and not is_of_queue(entry.key_class)
        }
        self._map_of = store.map(ledger.name)
        self._files = business.contents.files
        self._business = business

    async def happens(self, chance: random.Random) -> None:
        """Damage the file of a value of the business's own map, and that of the first item of a queue, if they have one."""
        await asyncio.get_running_loop().run_in_executor(None, self._files.seal)
        if own := sorted(name for name in self._live if "#" not in name):
            hurt = claim_of(self._live[chance.choice(own)])
            with self._hurt(hurt, how := chance.choice(_WAYS)) as is_archived:
                for name in own:
                    await self._look(name, self._live[name], is_archived=is_archived, how=how)
                beside = [name for name in own if claim_of(self._live[name]).file == hurt.file]
                await self._put_anew(chance.choice(beside))
        for name in sorted(self._business.memory.queues()):
            await self._look_at_queue(queue_named(name), chance.choice(_WAYS))

    @contextmanager
    def _hurt(self, claim: Claim, how: str) -> Iterator[bool]:
        """Have the bytes of a claim damaged, or its file absent, for the block. Gives whether the archive has them."""
        path = claim_path(self._ledger.folder, claim.file)
        whole = self._disk.read(path)
        if how == "absent":
            self._disk.unlink(path)
        else:
            self._write(path, _spoiled(whole, claim))
        self._ledger.is_hurt = True  # an item that cannot be read is put back, and so logged without its bytes
        yield is_right(claim, archived(self._world, self._ledger.name, claim))
        self._write(path, whole)
        self._ledger.is_hurt = False

    async def _look_at_queue(self, name: str, how: str) -> None:
        """A take of an item that cannot be read is refused. The item is still there, and the first one."""
        queue = self._store.business(self._ledger.name).queue(name)
        first = await anext(queue.items(), None)
        if first is None:
            return
        structure = queue_structure(name)
        key = key_of(first.priority, first.position)
        entry = self._business.memory.lookup(item_class(structure), key)
        if entry is None or not is_claimed(entry.value_class):
            return
        with self._hurt(claim_of(entry), how) as is_archived:
            told = await self._take(queue, name)
            if told != ([first.value] if is_archived else None):
                raise Violation(f"a take of an item of {name}, whose file was {how}, gave {short(told)}")
            self._world.met(f"queue: an item that is {how} {'came from the archive' if told else 'was refused'}")
        if told is None and (told := await self._take(queue, name)) != [first.value]:
            raise Violation(f"after a refused take {name} gave {short(told)}, and not {short(first.value)}")

    async def _take(self, queue: aio.Queue, name: str) -> list[Any] | None:
        """One item; None if it could not be read."""
        op = self._ledger.begin("take", key=name, most=1)
        try:
            told = await queue.take_many(1)
        except ContentDamaged:
            self._ledger.end(op, "unknown", UNREAD)
            return None
        self._ledger.end(op, "done", told)
        return told

    def _write(self, path: Path, data: bytes) -> None:
        """Put these bytes into the file, durably; a file that is gone is made."""
        self._disk.unlink(path)
        file = self._disk.create(path)
        file.write_at(0, [data])
        file.datasync()
        file.close()
        self._disk.sync_folder(path.parent)

    async def _look(self, name: str, entry: Entry, *, is_archived: bool, how: str) -> None:
        claim = claim_of(entry)
        wanted = self._ledger.large.value_of(entry)
        is_there = is_right(claim, stored(self._disk, self._ledger.folder, claim))
        ways: dict[str, Callable[[], Awaitable[Any]]] = {
            "get": lambda: self._map_of.get(name, ABSENT), "entry": lambda: self._raw(name),
        }  # fmt: skip
        for what, read in ways.items():
            told: Any = None
            with suppress(ContentDamaged):
                told = await read()
            if told is None and not is_there and not is_archived:
                self._world.met(f"values: bytes that are {how} were refused")
            elif told != wanted:
                raise Violation(f"{what} of {name}, whose file was {how}, gives {short(told)}, and not {short(wanted)}")
            elif not is_there:
                self._world.met(f"values: bytes that are {how} came from the archive")

    async def _raw(self, name: str) -> Any:
        entry = await self._map_of.entry(name)
        return ABSENT if entry is None else entry.value.decode()

    async def _put_anew(self, name: str) -> None:
        """Bytes that cannot be read do not keep another value from taking their place."""
        op = self._ledger.begin("put", key=name)
        wanted = op.writes[name] = self._ledger.large.wrote(f"v{op.number}-" + "y" * 3000)
        self._ledger.end(op, "done", await self._map_of.put(name, wanted))
        found = self._ledger.begin("get", key=name)
        self._ledger.end(found, "done", await self._map_of.get(name, ABSENT))
        with suppress(ContentMissing, ContentDamaged):
            await self._map_of.history(name)


def _spoiled(whole: bytes, claim: Claim) -> bytes:
    """The bytes of a claim file, of which those that a claim names are others."""
    begin, end = claim.offset, claim.offset + claim.length
    return whole[:begin] + bytes(byte ^ 1 for byte in whole[begin:end]) + whole[end:]
