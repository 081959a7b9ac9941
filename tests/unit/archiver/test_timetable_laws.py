"""Laws of the maintenance's timetable and back-pressure, for any sequence of wishes, durations, failures and calls."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kvwal.store.scheduling.backpressure import MOST_SHARE, WINDOW_CHECKPOINTS, Backpressure
from kvwal.store.scheduling.timetable import FIRST_RETRY_SECONDS, Timetable

TICK = 1.0


class Job(NamedTuple):
    """A job of the model: it is wanted `interval` after it began last, and by chance at any tick. Its runs take these times."""

    interval: int
    durations: list[int]
    longest_retry: int


class Run(NamedTuple):
    """A run of a job: when it was due, began and ended."""

    name: str
    due: float
    began: float
    ended: float


jobs = st.lists(
    st.builds(Job, st.integers(0, 20), st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(1, 30)),
    min_size=1, max_size=4,
)  # fmt: skip


class Model:
    """Jobs that run one at a time, as `Maintenance` runs them: a tick a second notes what is wanted, and begins what is due."""

    def __init__(self, of: list[Job], chance: st.DataObject) -> None:
        self.jobs = {f"job-{number}": job for number, job in enumerate(of)}
        self.timetable = Timetable({name: job.longest_retry for name, job in self.jobs.items()})
        self.began = dict.fromkeys(self.jobs, 0.0)
        self.wanted_since: dict[str, float] = {}
        self.retry_at = dict.fromkeys(self.jobs, 0.0)
        self.failures = dict.fromkeys(self.jobs, 0)
        self.running: Run | None = None
        self.runs: list[Run] = []
        self._chance = chance

    def tick(self, now: float) -> None:
        self._end(now)
        wanted = {
            name for name, job in self.jobs.items() if name in self.wanted_since or self._is_wanted(name, job, now)
        }
        running = self.running.name if self.running is not None else None
        for name in wanted - {running}:
            self.wanted_since.setdefault(name, now)
        self.timetable.note(wanted, now)
        if self.running is None and (name := self.timetable.begin(now)) is not None:
            due = max(self.wanted_since.pop(name), self.retry_at[name])
            duration = self.jobs[name].durations[len(self.runs) % len(self.jobs[name].durations)]
            self.running = Run(name, due, now, now + duration)
            self.began[name] = now

    def _is_wanted(self, name: str, job: Job, now: float) -> bool:
        return now - self.began[name] >= job.interval or self._chance.draw(st.booleans())

    def _end(self, now: float) -> None:
        run = self.running
        if run is None or run.ended > now:
            return
        self.runs.append(run)
        self.running = None
        self.timetable.ended()
        if self._chance.draw(st.booleans()):
            self.failures[run.name] += 1
            longest = self.jobs[run.name].longest_retry
            self.retry_at[run.name] = now + min(longest, FIRST_RETRY_SECONDS * 2 ** (self.failures[run.name] - 1))
            self.timetable.failed(run.name, now)
        else:
            self.failures[run.name], self.retry_at[run.name] = 0, 0.0
            self.timetable.reset(run.name)


@given(jobs, st.data())
def test_no_job_waits_longer_than_one_run_of_each_other_job(of: list[Job], chance: st.DataObject) -> None:
    """From the moment at which it is due: its interval is over, or it is wanted, and its retry may begin.

    So from one begin to the next it is at most the job's interval (or its own run, or its retry, if that is longer) and one run
    of each other job, to a tick each.
    """
    model = Model(of, chance)
    for second in range(150):
        model.tick(second * TICK)
    for run in model.runs:
        others = [max(job.durations) + TICK for name, job in model.jobs.items() if name != run.name]
        assert run.began - run.due <= sum(others) + TICK


@given(jobs, st.data())
def test_a_job_that_is_due_is_never_left_waiting_while_nothing_runs(of: list[Job], chance: st.DataObject) -> None:
    model = Model(of, chance)
    for second in range(60):
        model.tick(second * TICK)
        waiting = [name for name, since in model.wanted_since.items() if max(since, model.retry_at[name]) <= second]
        assert model.running is not None or not waiting


@given(st.integers(1, 200), st.integers(1, 3000))
def test_tries_of_a_failing_job_back_off_up_to_its_limit(failures: int, longest: int) -> None:
    """Each waits twice as long as the one before it; a success, or a call, ends that."""
    timetable = Timetable({"job": longest})
    now, waits = 0.0, []
    for _ in range(failures):
        timetable.note({"job"}, now)
        assert timetable.begin(now) == "job"
        timetable.ended()
        timetable.failed("job", now)
        wait = min(float(longest), 2.0 ** len(waits) if len(waits) < 40 else float(longest))
        timetable.note({"job"}, now)
        assert timetable.begin(now + wait - 0.001) is None
        waits.append(wait)
        now += wait
    timetable.reset("job")
    timetable.failed("job", now)
    timetable.note({"job"}, now)
    assert timetable.begin(now + FIRST_RETRY_SECONDS) == "job"


@given(st.integers(1, 1000), st.lists(st.tuples(st.integers(0, 20_000), st.booleans()), max_size=50))
def test_writers_wait_only_for_what_grew_while_maintenance_worked(size: int, seen: list[tuple[int, bool]]) -> None:
    """Never all of the time, never below the window, never while a job fails, and never for what was behind at the begin."""
    window, backpressure = WINDOW_CHECKPOINTS * size, Backpressure(size)
    least: int | None = None
    for behind, works in seen:
        share = backpressure.note(behind, works=works)
        least = behind if least is None or not works else min(least, behind)
        assert 0.0 <= share <= MOST_SHARE
        if behind <= max(window, least) or not works:
            assert share == 0.0
        if works and behind >= max(window, least) + window:
            assert share == MOST_SHARE


@given(st.integers(1, 1000), st.integers(1, 200), st.integers(1, 1000), st.integers(0, 5000))
def test_the_log_does_not_run_away(size: int, kept_up: int, written: int, backlog: int) -> None:
    """If maintenance does a tenth of what the writers could write, the log behind ends within two windows of its begin."""
    written = min(written, 9 * kept_up)
    backpressure = Backpressure(size)
    behind, highest = float(backlog), 0.0
    for _ in range(300):
        share = backpressure.note(int(behind), works=True)
        behind = max(0.0, behind + written * (1 - share) - kept_up)
        highest = max(highest, behind)
    window = WINDOW_CHECKPOINTS * size
    assert highest <= max(window, backlog) + window + written
