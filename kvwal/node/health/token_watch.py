"""Watch of a node's token files: what is put into them counts without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvwal.cluster.token import TokenSource
from kvwal.errors import ConfigError
from kvwal.ports.logger import get_logger
from kvwal.ports.tasks import Workers

_LOOK_SECONDS = 1.0


class TokenFile(NamedTuple):
    """A token file as it was at the last look. `failure` says why it could not be used, None if it could."""

    path: str
    tokens: int
    """How many tokens count now."""
    failure: str | None


class TokenWatch:
    """Looks at token files each second. A file that cannot be used leaves the tokens that it had, and is logged once."""

    def __init__(self, sources: Sequence[TokenSource], changed: Callable[[], None], workers: Workers) -> None:
        """`changed` is called after the tokens of a source have changed. Tokens of no file stay as they are."""
        self._sources = [source for source in sources if source.path is not None]
        self._changed = changed
        self._workers = workers
        self._failures: dict[TokenSource, str] = {}
        self._logger = get_logger(__name__)

    async def run(self) -> None:
        """Look each second until this is cancelled. The files are read off the event loop, which has the clients' writes."""
        while self._sources:
            await self._workers.run(self.look)
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """Look once."""
        for source in self._sources:
            self._refresh(source)

    def files(self) -> list[TokenFile]:
        """The files that are watched."""
        return [TokenFile(str(source.path), len(source.tokens), self._failures.get(source)) for source in self._sources]

    def _refresh(self, source: TokenSource) -> None:
        try:
            is_changed = source.refresh()
        except ConfigError as error:
            if self._failures.get(source) != str(error):
                self._logger.warning("a token file cannot be used; its earlier tokens count", error=str(error))
            self._failures[source] = str(error)
            return
        if self._failures.pop(source, None) is not None:
            self._logger.info("a token file can be used again", file=str(source.path))
        if is_changed:
            self._changed()
            self._logger.info("a token file has changed", file=str(source.path), accepted=len(source.tokens))
