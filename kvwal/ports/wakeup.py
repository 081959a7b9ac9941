"""Wakeup port: wakes an event loop from a thread outside Python, through a pipe that the loop watches."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Self

from kvwal.ports.boundary import logged, on_readable

_READ_BYTES = 4096
_wakeup_failed = logged("the wakeup of Hazelcast's threads could not be read, which is a bug")


class Wakeup:
    """A wakeup of one event loop. Created and used on that loop. Another thread sets it by writing a byte to the file `path`."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        os.set_blocking(self._reader, False)
        on_readable(asyncio.get_running_loop(), self._reader, self._on_byte, _wakeup_failed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        os.close(self._writer)

    @property
    def path(self) -> str:
        """The file to write a byte to. Open it in this process, before the end of the `with` block."""
        return f"/dev/fd/{self._writer}"

    def set(self) -> None:
        """Set the wakeup, from the loop's thread."""
        self._event.set()

    async def wait(self) -> None:
        """Return when the wakeup was set since the last return. Several sets count as one."""
        await self._event.wait()
        self._event.clear()

    def _on_byte(self) -> None:
        self._event.set()
        os.read(self._reader, _READ_BYTES)
