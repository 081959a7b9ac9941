"""Commands that read event logs into a cluster, each under the leases of the applications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvwal.spark.eventlog.logs import find_logs
from kvwal.spark.eventlog.record_logs import record_logs
from kvwal.spark.leases import Leases
from kvwal.spark.state.lease import LEASE_SECONDS
from tests.support.event_logs import counts, event_log
from tests.unit.follower.test_follower import Setting, setting
from tests.unit.follower.test_lease_fence import StandsStill

__all__ = ["setting"]
APP = "app-1"


def command(setting: Setting, records: Any = None, pause: Callable[[float], bool] = lambda seconds: True) -> list[str]:
    """Read the logs as `kvwal record` does it; the problems that it tells. By default it does not wait for a lease."""
    with Leases(records or setting.records, setting.clock) as leases:
        reads = record_logs(lambda app: leases.hold(app, pause), find_logs([setting.logs]), None, leases.beat)
    return [read.problem for read in reads]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_command_that_stood_still_at_any_step_writes_over_no_other(setting: Setting, after: bool) -> None:
    log, step, taken_over = setting.logs / f"{APP}.inprogress", 0, 0
    while True:
        setting.records.clear()
        log.write_bytes(event_log(APP, 2, ended=False))
        told: list[list[str]] = []

        def other(told: list[list[str]] = told) -> None:
            log.write_bytes(event_log(APP, 9, ended=False))
            told.append(command(setting))
            setting.clock.now += LEASE_SECONDS + 1
            told.append(command(setting))

        slow = StandsStill(setting.records, step, other, after=after)
        command(setting, slow)
        if not slow.is_over:
            break
        while command(setting) != [""]:
            setting.clock.now += LEASE_SECONDS + 1
        assert counts(setting.records, APP) == ("RUNNING", 9, 18, 9), step
        taken_over += told[-1] == [""]
        step += 1
    assert taken_over


def test_a_log_that_another_reader_has_is_told_and_left_to_it(setting: Setting) -> None:
    setting.write(f"{APP}.inprogress", event_log(APP, 2, ended=False))
    follower = setting.follower()
    follower.round()
    setting.write(f"{APP}.inprogress", event_log(APP, 9, ended=False))
    (problem,) = command(setting)
    assert "another reader holds the lease of the application app-1" in problem
    assert counts(setting.records, APP)[1] == 2

    def others_go_on(seconds: float) -> bool:
        follower.round()  # a follower hands a lease over to the reader that asks for it
        return False

    assert command(setting, pause=others_go_on) == [""]
    assert counts(setting.records, APP)[1] == 9
