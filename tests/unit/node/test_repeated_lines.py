"""A service that meets the same trouble over and over writes ten lines of it a minute, and how many more there were."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kvwal.node.health.repeated_lines import MOST, WINDOW_SECONDS, LimitedHandler
from kvwal.ports.logger import JsonLines, get_logger

NAME = "kvwal.test.repeats"


class Service:
    """The log of a service whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.out = io.StringIO()
        self.handler = LimitedHandler(self.out, lambda: self.now)
        self.handler.setFormatter(JsonLines())
        self.logger = get_logger(NAME).bind(node="n")

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    plain = logging.getLogger(NAME)
    plain.addHandler(made.handler)
    plain.setLevel(logging.INFO)
    yield made
    plain.removeHandler(made.handler)


def test_lines_that_differ_in_numbers_are_counted(service: Service) -> None:
    for number in range(1240):
        service.logger.warning(f"Migration commit {number} failed", partition=number)
    service.logger.warning("another trouble")
    assert [line["event"] for line in service.lines()] == [
        *(f"Migration commit {number} failed" for number in range(MOST)), "another trouble"
    ]  # fmt: skip
    service.now = WINDOW_SECONDS
    service.logger.info("serving")
    told, last = service.lines()[-2:]
    assert told["left_out"] == 1240 - MOST
    assert told["line"] == "Migration commit 0 failed"
    assert (told["logger"], told["level"]) == (NAME, "warning")
    assert last["event"] == "serving"


def test_lines_are_written_again_in_the_next_minute_and_the_rest_is_told_at_the_end(service: Service) -> None:
    for minute in (0, 1):
        service.now = minute * WINDOW_SECONDS
        for _ in range(MOST + 2):
            service.logger.error("the archive does not answer")
    service.handler.close()
    said = [line.get("left_out", 0) for line in service.lines()]
    assert said == [*[0] * MOST, 2, *[0] * MOST, 2]


def test_lines_of_information_are_all_written(service: Service) -> None:
    for number in range(MOST * 3):
        service.logger.info("loaded", map=f"map-{number}")
    assert len(service.lines()) == MOST * 3
