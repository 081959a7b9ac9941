"""Settings for every test: a failing example prints how to run it again, and no example has a deadline on a shared machine."""

from __future__ import annotations

import gc
import random
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler.protocol import Scheduling

from kvwal.ports.disk import OS_DISK, Disk, OsDisk
from tests.simulation.machine.disk import ProcessDisk
from tests.support.archive import forked
from tests.support.chance import ALL_EXAMPLES
from tests.support.invariants.watch import LAWS, left_in, watching
from tests.support.member.last_lines import last_lines
from tests.support.scheduling import FolderScheduling, is_taken_as_a_whole
from tests.support.selection import left_out, share_of, variants_left_out

settings.register_profile(
    "kvwal",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# Where only the verdict is asked for: a failing example is not made smaller, which takes minutes.
settings.register_profile(
    "verdict", settings.get_profile("kvwal"), phases=[Phase.explicit, Phase.generate], database=None
)
# Of `make test`: each run tries others.
settings.register_profile("sample", settings.get_profile("kvwal"), max_examples=ALL_EXAMPLES * 2 // 5)
settings.load_profile("kvwal")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which tests to take (see `tests.support.selection`)."""
    parser.addoption(
        "--part", choices=["all", "sample", "rest"], default="all",
        help="all tests; those that are not long, and a sample of the long ones; or the rest of the long ones",
    )  # fmt: skip
    parser.addoption("--sample-seed", type=int, help="what the sample is drawn with; by default a number of this run")
    parser.addoption("--every", type=int, default=1, help="with --part=rest: of so many shares take one, by the seed")


def pytest_configure(config: pytest.Config) -> None:
    """One seed for all processes of the run: this one hands its options to the others. And how many examples a test tries."""
    if config.option.sample_seed is None:
        config.option.sample_seed = random.SystemRandom().randrange(1 << 16)
    if config.option.part == "sample":
        settings.load_profile("sample")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    """With `--dist=loadfile`, folders that share a cluster or a Spark stay in one process."""
    return FolderScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_report_header(config: pytest.Config) -> str | None:
    """How to take the same sample again."""
    part, seed, every = config.option.part, config.option.sample_seed, config.option.every
    share = f" --every={every}" if part == "rest" and every > 1 else ""
    return None if part == "all" else f"long tests: --part={part} --sample-seed={seed}{share}"


_BEGUN = pytest.StashKey[float]()
"""When the set-up of a test began, in seconds since the epoch."""
_broken: list[tuple[str, str]] = []
"""The laws that stores of this process broke since the last test, by name, and how."""


@pytest.fixture(scope="session", autouse=True)
def _watched_stores() -> Iterator[None]:
    """Each store that a test opens is watched (see `tests.support.invariants.watch`)."""
    with watching(lambda law, how: _broken.append((law, how)), _seen):
        yield


@pytest.fixture(scope="session", autouse=True)
def _forked_archivers() -> Iterator[None]:
    """Each archiver that a store of this process has is forked from one that has loaded all it needs."""
    with forked.forked_archivers():
        yield


@pytest.fixture
def started_archivers() -> Iterator[None]:
    """The archivers of a test are started as those of a program are."""
    with forked.started_archivers():
        yield


def _seen(disk: Disk) -> Disk | None:
    """The files that a store has, without the counts and faults of a test's disk. The simulation looks at its own."""
    return None if isinstance(disk, ProcessDisk) else OS_DISK if isinstance(disk, OsDisk) else disk


@pytest.fixture(autouse=True)
def _laws_hold(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: timestamps along logs ascend, each file has an owner, each content its bytes, no job waits too long.

    A test that breaks a law on purpose says so: `@pytest.mark.breaks("files", reason="…")`.
    """
    _broken.clear()
    folder: Path | None = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    left = [] if folder is None else list(left_in(folder))
    excused = {law for mark in request.node.iter_markers("breaks") for law in _excused(*mark.args, **mark.kwargs)}
    broken = [f"{law}: {how}" for law, how in [*_broken, *left] if law not in excused]
    assert broken == []


def _excused(*laws: str, reason: str) -> tuple[str, ...]:
    assert set(laws) <= set(LAWS), f"no such law: {laws}"
    assert reason
    return laws


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the nodes said meanwhile."""
    begun = item.stash.setdefault(_BEGUN, call.start)
    report = yield
    if report.failed:
        folder: Path = item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        report.sections += [(f"the end of {name}", text) for name, text in last_lines(folder, begun)]
    return report


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether a test marked `loop` runs all of its rounds, or few of them."""
    return bool(request.config.option.part != "sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this part does not take. Folders that one process takes as a whole come first, as they take longest."""
    part = config.option.part
    marks = {item.nodeid: mark for item in items if (mark := item.get_closest_marker("long"))}
    long, longest = set(marks), {name for name, mark in marks.items() if mark.kwargs.get("minutes")}
    left = left_out(long, part, config.option.sample_seed, longest)
    variants = {
        item.nodeid: mark.args[0]
        for item in items
        if (mark := item.get_closest_marker("variants")) and item.nodeid not in long
    }
    others = variants_left_out(variants, config.option.sample_seed)
    if part == "sample":
        left |= others
    if part == "rest":
        loops = {item.nodeid for item in items if _is_loop(item)}
        every = share_of(long | loops | set(variants), config.option.every, config.option.sample_seed)
        taken = (long - left | loops | others) & every
        left = {item.nodeid for item in items} - taken
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
        items[:] = [item for item in items if item.nodeid not in left]
    items.sort(key=lambda item: not is_taken_as_a_whole(item.nodeid))


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the garbage collector, which many tests call, need not look at it each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """At the end of the process libraries look for what was not given back."""
    gc.unfreeze()


def _is_loop(item: pytest.Item) -> bool:
    """Whether `make test` runs a part of this test only: fewer rounds, or fewer examples of hypothesis."""
    return item.get_closest_marker("loop") is not None or getattr(
        getattr(item, "obj", None), "is_hypothesis_test", False
    )
