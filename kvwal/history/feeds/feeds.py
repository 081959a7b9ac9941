"""The feeds that watches of a store read: of a log that is open here, and of logs that other processes write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import KvwalError, StoreClosed
from kvwal.history.feeds.log_feed import ArchivedLogFeed, LogFeed, OpenArchive
from kvwal.history.feeds.lost_tails import LostTailWarnings
from kvwal.history.feeds.merged_feed import MergedFeed, OneLog
from kvwal.log.log import Log
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk
from kvwal.structures.watch import Change, Positions, Start
from kvwal_archive.layout import Place
from kvwal_archive.lost_tails import lost_tails
from kvwal_archive.registry import registered

FILES_SECONDS = 0.02
"""How often files of other processes are looked at."""
NODES_SECONDS = 1.0
"""How often the logs under a root are listed anew."""
ARCHIVE_SECONDS = 10.0
"""How often an archive is asked for logs that are not under the root."""


class OpenFeed:
    """The feed of a log that is open here: its acknowledged entries, and then what ended it."""

    poll_seconds: float | None = None

    def __init__(self, disk: Disk, root: Path, place: Place, archive: OpenArchive, log: Log, start: Start) -> None:
        self._log = log
        applied = log.writer.applied
        feed = LogFeed(disk, root, place, archive, applied, own=True)
        self._begin = {place.node: feed.position if start is None else _begun(feed, start)}
        self._merged = MergedFeed([feed], lambda: log.writer.applied)

    def positions(self) -> Positions:
        """See `Feed.positions`."""
        return dict(self._begin)

    def read(self) -> list[Change]:
        """See `Feed.read`."""
        ending = self._ending()  # before anything is read: then all that was acknowledged is read first
        changes = self._merged.read()
        if not changes and ending is not None:
            raise ending
        return changes

    def subscribe(self, wake: Callable[[], None]) -> None:
        """See `Feed.subscribe`."""
        self._log.writer.listeners.add(wake)

    def _ending(self) -> KvwalError | None:
        if self._log.writer.failed is not None:
            return self._log.writer.failure()
        if self._log.ended:
            return StoreClosed(
                f"{self._log.place.business}: the store was closed, and the watch has given every change until then.",
                hint="Open it again, and go on from the watch's position.",
            )
        return None


class FilesFeed:
    """The feed of logs that other processes write, by their files. Logs that begin later are read from their beginning."""

    poll_seconds: float | None = FILES_SECONDS

    def __init__(
        self, disk: Disk, root: Path, clock: Clock, find: Callable[[], Sequence[Place]], archive: OpenArchive, start: Start,
        *, all_nodes: bool,
    ) -> None:  # fmt: skip
        """`find` lists the logs to read. With `all_nodes` the archive's other logs of this business are read too."""
        self._clock = clock
        self._find = find
        self._archive = archive
        self._all_nodes = all_nodes
        self._make = partial(LogFeed, disk, root, archive=archive, own=False)
        self._disk = disk
        self._merged = MergedFeed([])
        self._only_archived: set[str] = set()
        self._warnings = LostTailWarnings()
        self._begin = {feed.place.node: _begun(feed, start) for feed in self._add_new()}
        if isinstance(start, dict):
            self._since = 0
        else:
            self._since = clock.wall_ms() << TIMESTAMP_SHIFT if start is None else start
        self._warn()
        self._listed = self._asked = clock.elapsed()

    def positions(self) -> Positions:
        """See `Feed.positions`."""
        return dict(self._begin)

    def read(self) -> list[Change]:
        """See `Feed.read`."""
        now = self._clock.elapsed()
        asks = now - self._asked >= ARCHIVE_SECONDS
        if asks or now - self._listed >= NODES_SECONDS:
            self._listed = now
            self._asked = now if asks else self._asked
            self._add_new(asks=asks)
            if asks:
                self._warn()
        return self._merged.read(() if asks else self._only_archived)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """See `Feed.subscribe`. Nothing tells of other processes' writes."""

    def _add_new(self, *, asks: bool = True) -> list[OneLog]:
        """Merge the logs that are not merged yet: those under the root, and with `asks` those that only the archive has."""
        here = list(self._find())
        self._go_on_by_files(here)
        feeds: list[OneLog] = [self._make(place=place) for place in here]
        objects = self._archive() if asks and self._all_nodes else None
        if objects is not None:
            nodes = {place.node for place in here}
            first = here[0]
            archived = registered(objects, first.namespace, first.cluster, first.business)
            elsewhere = [place for place in archived if place.node not in nodes]
            self._only_archived = {place.node for place in elsewhere} - (self._merged.nodes - self._only_archived)
            feeds += [ArchivedLogFeed(self._disk, objects, place) for place in elsewhere]
        new = [feed for feed in feeds if feed.place.node not in self._merged.nodes]
        for feed in new:
            self._merged.add(feed)
        return new

    def _warn(self) -> None:
        """Log a warning of each lost tail of which this feed may lack changes, once. Each asks the archive."""
        objects = self._archive() if self._all_nodes else None
        if objects is not None:
            place = self._find()[0]
            tails = lost_tails(objects, place.namespace, place.cluster, place.business)
            self._warnings.look(tails, self._begin, self._since)

    def _go_on_by_files(self, here: Sequence[Place]) -> None:
        """Read a log by its files that only the archive had before."""
        for place in here:
            if (known := self._merged.archived(place.node)) is not None:
                self._merged.replace(self._make(place=place, position=known.position, since=known.since))
                self._only_archived.discard(place.node)


def _begun(feed: OneLog, start: Start) -> int:
    """The position of the feed, which begins at `start` now."""
    if isinstance(start, dict):
        feed.position = start.get(feed.place.node, 0)
        if isinstance(feed, LogFeed):
            feed.check_position()
    elif start is None:
        feed.begin_at_end()
    else:
        feed.begin_after(start)
    return feed.position
