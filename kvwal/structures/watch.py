"""Watches: iterators over the changes of a structure, in the order in which they were made, from any position on.

A watch reads the changes from a feed, a page at a time, when its caller asks for them. So a slow caller costs one page of memory,
and a caller that is not there costs none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import msgspec

from kvwal.entry import DataEntry, Entry, is_claimed
from kvwal.errors import ConfigError
from kvwal.hlc import to_timestamp
from kvwal.key_class import is_of_map, structure_of
from kvwal.ports.boundary import raised_to_awaiter, start_task
from kvwal.ports.locks import Signal

Positions: TypeAlias = dict[str, int]
"""A position: for each node, the last sequence of its log that was given."""
Start: TypeAlias = int | Positions | None
"""Where to begin: after a timestamp, after a position, or now."""


class Change(NamedTuple):
    """An entry with its place: the node that logged it, and its sequence in the log of that node."""

    node: str
    sequence: int
    entry: Entry

    @property
    def order(self) -> tuple[int, str, int]:
        """The order of any two changes."""
        return self.entry.timestamp, self.node, self.sequence


class Feed(Protocol):
    """The changes of a business. Used by one thread at a time."""

    poll_seconds: float | None
    """How often to look for changes; None if `subscribe` tells of them."""

    def positions(self) -> Positions:
        """The positions at which the feed began."""
        ...

    def read(self) -> list[Change]:
        """The next changes, none if there are none yet. Raises what ended the feed: `StoreClosed`, `LogFailed`, `ArchiveGap`."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, a bound method, when there may be changes, or the feed has ended. Its object is not kept alive."""
        ...


_TAKEN_BYTES = 1 << 20
Whole: TypeAlias = Callable[[DataEntry], DataEntry]
"""Reads the bytes of a value that is large: see `Codecs.whole`."""


def as_it_is(entry: DataEntry) -> DataEntry:
    """The `Whole` of logs without large values."""
    return entry


class Watch(Iterator[DataEntry]):
    """An iterator over changes, for one thread. It waits for the next change, and ends only with an error.

    `StoreClosed` when the store is closed, `LogFailed` when its log has failed, both after the last change that was acknowledged.
    `ArchiveGap` if the next changes are not kept any more: the watch fell too far behind.
    """

    def __init__(self, feed: Feed, shows: Callable[[str], bool] = is_of_map, whole: Whole = as_it_is) -> None:
        """`shows` says of a key class whether changes of its entries are given: those of one structure."""
        self._whole = whole
        self._feed = feed
        self._pages = _Pages(feed, shows)
        self._signal = Signal()
        feed.subscribe(self._wake)

    @property
    def position(self) -> str:
        """The position after the last change given, as text. `watch(after=position)` goes on there, in any process."""
        return self._pages.position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> DataEntry:
        """The next change. Waits until there is one."""
        while (change := self._pages.next()) is None:
            self._signal.clear()
            if not self._pages.load():
                self._signal.wait(self._feed.poll_seconds)
        return self._whole(change)

    def poll(self, most: int | None = None) -> list[DataEntry]:
        """The changes that are there, without waiting: up to some thousand, or `most`; none if there are none yet."""
        return self._pages.take_all(self._whole, most)

    def _wake(self) -> None:
        self._signal.set()


class AsyncWatch(AsyncIterator[DataEntry]):
    """An asynchronous iterator over changes, for one task. Its promises are those of `Watch`."""

    def __init__(
        self,
        begin: Callable[[], Awaitable[Feed]],
        run: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]],
        shows: Callable[[str], bool] = is_of_map,
        whole: Callable[[], Whole] = lambda: as_it_is,
    ) -> None:
        """`begin` opens the feed, when the first change is asked for. `run` runs a call on a thread. `shows` as of `Watch`, and
        `whole` gives that of `Watch`, once the feed is open.
        """
        self._whole = whole
        self._begin = begin
        self._run = run
        self._shows = shows
        self._feed: Feed | None = None
        self._pages: _Pages | None = None
        self._loading: asyncio.Task[bool] | None = None
        self._event = asyncio.Event()

    @property
    def position(self) -> str:
        """See `Watch.position`. Empty until the first change was asked for."""
        return "" if self._pages is None else self._pages.position

    async def __anext__(self) -> DataEntry:
        """The next change. Waits until there is one. The store's own thread of control goes on meanwhile."""
        feed, pages = self._feed, self._pages
        if feed is None or pages is None:
            feed = self._feed = await self._begin()
            pages = self._pages = _Pages(feed, self._shows)
            feed.subscribe(self._wake)
        while (change := pages.next()) is None:
            if not await self._load(pages):
                with suppress(TimeoutError):
                    async with asyncio.timeout(feed.poll_seconds):
                        await self._event.wait()
        if not is_claimed(change.value_class):
            return change
        whole: DataEntry = await self._run(partial(self._whole(), change))
        return whole

    async def _load(self, pages: _Pages) -> bool:
        """Load a page. If the caller is cancelled, the load goes on, and the next call waits for it: no two run at once."""
        if self._loading is None:
            self._event.clear()
            self._loading = start_task(self._run(pages.load), raised_to_awaiter)
        loading = self._loading
        try:
            return await asyncio.shield(loading)
        finally:
            if loading.done():
                self._loading = None

    def _wake(self) -> None:
        self._event.set()


class _Pages:
    """The page that was read last, and the position in it."""

    def __init__(self, feed: Feed, shows: Callable[[str], bool] = is_of_map) -> None:
        self._feed = feed
        self._shows = shows
        self._positions = feed.positions()
        self._page: deque[Change] = deque()

    @property
    def position(self) -> str:
        return format_position(self._positions)

    def next(self) -> DataEntry | None:
        while self._page:
            change = self._page.popleft()
            self._positions[change.node] = change.sequence
            if self._shows(change.entry.key_class):
                return change.entry.public()
        return None

    def load(self) -> bool:
        """Read a page. False if there is none yet."""
        self._page.extend(self._feed.read())
        return bool(self._page)

    def take_all(self, whole: Whole, most: int | None) -> list[DataEntry]:
        """The rest of the page, or the next one; fewer changes if large values have `_TAKEN_BYTES` together."""
        taken: list[DataEntry] = []
        size = 0
        while not taken and (self._page or self.load()):
            while size < _TAKEN_BYTES and (most is None or len(taken) < most) and (change := self.next()) is not None:
                taken.append(whole(change))
                size += len(taken[-1].value)
        return taken


def of_structure(structure: str) -> Callable[[str], bool]:
    """Whether entries of a class are those of this structure, as `Watch` asks it."""
    return lambda key_class: structure_of(key_class) == structure


def parse_start(after: int | date | str | None) -> Start:
    """Where a watch begins. Raises what `at` raises for a number that is no timestamp, and `ConfigError` for a text that is no
    position.
    """
    if after is None:
        return None
    return parse_position(after) if isinstance(after, str) else to_timestamp(after)


def format_position(positions: Positions) -> str:
    """A position as text: JSON."""
    return msgspec.json.encode(positions, order="sorted").decode()


def parse_position(text: str) -> Positions:
    """The position that `format_position` wrote. Raises `ConfigError`."""
    try:
        positions = _decode(text)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{text!r} is no position of a watch ({error}).",
            hint="Give a position that a watch had, or a timestamp that kvwal returned, a datetime, or a date.",
        ) from error
    return dict(positions)


_decode = msgspec.json.Decoder(dict[str, int]).decode
