"""What wakes an event loop from a thread that is not Python's: a pipe that the loop watches."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Self

from kvwal.ports.boundary import logged, on_readable

_ROOM = 4096
_not_heard = logged("the bell of Hazelcast's threads could not be heard, which is a bug")


class Wakeup:
    """Made and used on the loop that it wakes. A thread rings by writing a byte to the file `path`."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._rung = asyncio.Event()

    def __enter__(self) -> Self:
        os.set_blocking(self._reader, False)
        on_readable(asyncio.get_running_loop(), self._reader, self._hear, _not_heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        os.close(self._writer)

    @property
    def path(self) -> str:
        """To be opened in this process, before the end of `with`."""
        return f"/dev/fd/{self._writer}"

    def ring(self) -> None:
        """For whoever is on the loop already."""
        self._rung.set()

    async def rung(self) -> None:
        """Return when it has been rung since the last return: several times count once."""
        await self._rung.wait()
        self._rung.clear()

    def _hear(self) -> None:
        self._rung.set()
        os.read(self._reader, _ROOM)
