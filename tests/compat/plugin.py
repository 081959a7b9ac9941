"""For pytest, where it runs the client's tests: puts the stand-in where they look for their remote controller, and writes
what each test came to into the file that COMPAT_REPORT names, one JSON object a line.
"""

from __future__ import annotations

import enum
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compat.controller import HzRemoteController, Response

Lang = enum.Enum("Lang", "JAVASCRIPT PYTHON GROOVY RUBY")


def _module(name: str, **has: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(has)
    sys.modules[name] = module


_module("tests.hzrc", __path__=[])
_module("tests.hzrc.client", HzRemoteController=HzRemoteController)
_module("tests.hzrc.ttypes", Lang=Lang, Response=Response)
_MOCK = vars(__import__("unittest.mock").mock)
_module("mock", __path__=[], version_info=(5, 0, 0), **_MOCK)
_module("mock.mock", **_MOCK)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Ends the members that the test started for itself: unittest runs no tearDown when setUp fails."""
    of_class = set(HzRemoteController.not_exited)
    try:
        return (yield)
    finally:
        _exit(HzRemoteController.not_exited - of_class)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Any:
    """Ends the members of a class after its last test: unittest runs no tearDownClass when setUpClass fails."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.parent is not item.parent:
            _exit(set(HzRemoteController.not_exited))


def _exit(controllers: set[HzRemoteController]) -> None:
    for controller in controllers:
        controller.exit()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """One line a phase of a test that says something."""
    outcome = yield
    found = outcome.get_result()
    if found.when == "call" or found.outcome != "passed":
        _tell(item.nodeid, found.outcome, str(getattr(found.longrepr, "reprcrash", found.longrepr) or ""))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A module that cannot be loaded is told as one test."""
    if report.failed:
        _tell(report.nodeid, "failed", str(report.longrepr)[-300:])


def _tell(test: str, outcome: str, why: str) -> None:
    with Path(os.environ["COMPAT_REPORT"]).open("a") as report:
        report.write(json.dumps({"test": test, "outcome": outcome, "why": why[:3000]}) + "\n")
