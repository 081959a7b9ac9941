"""Settings for every test: a failing example prints how to run it again, and no example has a deadline on a shared machine."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler.protocol import Scheduling

from tests.support.scheduling import FolderScheduling, is_taken_as_a_whole
from tests.support.selection import left_out, share_of

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
    """One seed for all processes of the run: this one hands its options to the others."""
    if config.option.sample_seed is None:
        config.option.sample_seed = random.SystemRandom().randrange(1 << 16)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    """With `--dist=loadfile`, folders that share a cluster or a Spark stay in one process."""
    return FolderScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_report_header(config: pytest.Config) -> str | None:
    """How to take the same sample again."""
    part, seed, every = config.option.part, config.option.sample_seed, config.option.every
    share = f" --every={every}" if part == "rest" and every > 1 else ""
    return None if part == "all" else f"long tests: --part={part} --sample-seed={seed}{share}"


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether a test marked `loop` runs all of its rounds, or few of them."""
    return bool(request.config.option.part != "sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this part does not take. Folders that one process takes as a whole come first, as they take longest."""
    part = config.option.part
    long = {item.nodeid for item in items if item.get_closest_marker("long")}
    left = left_out(long, part, config.option.sample_seed)
    if part == "rest":
        loops = {item.nodeid for item in items if item.get_closest_marker("loop")}
        taken = (long - left | loops) & share_of(long | loops, config.option.every, config.option.sample_seed)
        left = {item.nodeid for item in items} - taken
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
        items[:] = [item for item in items if item.nodeid not in left]
    items.sort(key=lambda item: not is_taken_as_a_whole(item.nodeid))
