"""The status of a follower, for its readiness and its metrics. One thread writes it; other threads read it."""

from __future__ import annotations

from kvwal.errors import KvwalError
from kvwal.hlc import second_text
from kvwal.ports.clock import Clock
from kvwal.ports.logger import get_logger
from kvwal.spark.follower.marks import LogMark
from kvwal.spark.kept.keeping import Keeping

_log = get_logger(__name__)


class RoundCounts:
    """What one round saw. `logs` are those that its listings showed; each is in one of the other counts of logs."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.seconds = 0.0
        self.whole = True
        """Whether every folder was listed, and every changed log read, by this follower or by another reader."""
        self.logs = 0
        self.complete = 0
        self.growing = 0
        self.skipped = 0
        self.stopped_early = 0
        self.elsewhere = 0
        self.damaged = 0
        self.readers = 0
        self.applications: set[str] = set()

    def add(self, mark: LogMark) -> None:
        """Count a log that was read up to this mark."""
        self.damaged += mark.damaged
        if mark.app:
            self.applications.add(mark.app)
        if mark.problem and mark.app:
            self.stopped_early += 1
        elif mark.problem or not mark.app:
            self.skipped += 1
        elif mark.complete:
            self.complete += 1
        else:
            self.growing += 1


class FollowerStatus:
    """What a follower has done since it was started, and what its last round saw."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.elapsed()
        self._now = RoundCounts(self._since)
        self.last: RoundCounts | None = None
        """The counts of the last round that ended."""
        self.rounds = 0
        self.events = 0
        self.bytes = 0
        self.logs_read = 0
        self.logs_kept = 0
        self.troubles = 0
        self.waiting: str | None = None
        """Why the follower cannot go on at the moment: a sentence."""
        self._troubled: dict[str, str] = {}
        self._troubled_now: dict[str, str] = {}
        self._elsewhere: set[str] = set()
        self._elsewhere_now: set[str] = set()

    def begin(self) -> RoundCounts:
        """Begin a round."""
        if not self.rounds:  # the look at the folders before the first round
            self._troubled |= self._troubled_now
        self._now = RoundCounts(self._clock.elapsed())
        self._troubled_now = {}
        self._elsewhere_now = set()
        return self._now

    def end(self, readers: int) -> None:
        """End a round."""
        counts = self._now
        counts.readers = readers
        counts.seconds = self._clock.elapsed() - counts.started
        for place in self._troubled.keys() - self._troubled_now.keys():
            _log.info("event logs can be read again", place=place)
        self._troubled, self._elsewhere = self._troubled_now, self._elsewhere_now
        self.waiting = next(iter(self._troubled.values()), None)
        self.last = counts
        self.rounds += 1
        if counts.whole:
            self._since = counts.started

    def unchanged(self, mark: LogMark) -> None:
        """A log has not changed since it was read."""
        self._now.add(mark)

    def read(self, mark: LogMark, log: str, events: int) -> None:
        """A log was read up to its present end."""
        self._now.add(mark)
        self.events += events
        self.logs_read += 1
        if mark.problem:
            _log.warning("an event log is damaged", log=log, application=mark.app, problem=mark.problem)
        elif mark.complete:
            _log.info("an event log was read to its end", log=log, application=mark.app, events=events)

    def kept(self, log: str, kept: Keeping) -> None:
        """A log that has ended or is quiet was looked at, to be kept."""
        if kept.problem:
            _log.warning("an event log is not kept, or not all of it", log=log, problem=kept.problem)
        if kept.is_new:
            self.logs_kept += 1
            _log.info("an event log is kept", log=log, name=kept.name)

    def skipped(self, mark: LogMark, log: str, *, is_log: bool) -> None:
        """A file is left alone until it changes. `is_log`: it may be an event log, but cannot be read."""
        self._now.add(mark)
        note = _log.warning if is_log else _log.info
        note("a file is skipped", log=log, problem=mark.problem)

    def replaced(self, app: str, log: str, started: int) -> None:
        """The log of a later run of an application is read: its records replace those of the run that started then."""
        _log.info(
            "a later run of an application replaces the earlier one; its history keeps that one",
            application=app, log=log, earlier=second_text(started),
        )  # fmt: skip

    def elsewhere(self, app: str) -> None:
        """A recorder, or another follower, reads the application of a log. It is said once, until that is over."""
        self._now.elsewhere += 1
        self._elsewhere_now.add(app)
        if app not in self._elsewhere:
            _log.info(
                "a recorder or another follower reads an application; its event log is left alone", application=app
            )

    def vanished(self, log: str) -> None:
        """A log was renamed or deleted while it was looked at."""
        self._now.whole = False
        _log.info("an event log was renamed or deleted; the next round looks again", log=log)

    def received(self, size: int) -> None:
        """Bytes of lines were read."""
        self.bytes += size

    def trouble(self, place: str, error: KvwalError) -> None:
        """A folder, or a log of it, could not be read in this round. It is said once, until it is over or changes."""
        self._now.whole = False
        self.troubles += 1
        sentence = str(error)
        if self._troubled.get(place) != sentence:
            _log.warning("event logs cannot be read now; the next round tries again", place=place, problem=sentence)
        self._troubled_now[place] = sentence

    def wait_for_store(self, error: BaseException) -> None:
        """The store cannot be written to at the moment."""
        self.troubles += 1
        if self.waiting != str(error):
            _log.warning("the follower waits for its store", problem=str(error))
        self.waiting = str(error)

    def lag(self) -> float:
        """Seconds since the start of the last whole round: what had been written before is recorded."""
        return self._clock.elapsed() - self._since

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Whether the last round was whole and nothing is waited for, and the details for operators."""
        last = self.last
        details: dict[str, object] = {"rounds": self.rounds, "lag_seconds": round(self.lag(), 1)}
        if self.waiting is not None:
            details["waiting"] = self.waiting
        if last is not None:
            details |= {"logs": last.logs, "applications": len(last.applications), "damaged_lines": last.damaged}
            details["elsewhere"] = last.elsewhere
        return last is not None and last.whole and self.waiting is None, details
