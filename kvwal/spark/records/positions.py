"""Records about the reading of an event log: how far it was read, and its damaged lines."""

from __future__ import annotations

import msgspec


class EventLogPosition(msgspec.Struct, kw_only=True, tag_field="kind", tag="log"):
    """The position in the log of an application: `event` lines of its `roll`-th file are read (0: the log is one file).

    `running` and `running_sql` are the jobs and SQL executions that began and have not ended. `complete`: the log was read to
    its end, and Spark has finished it; its files had `size` bytes then (0: not known). `missing_roll` is the roll before which
    reading stopped, because it is not there (0: none). `event_crc` is the crc32 of the last line read (0: not known). In a file
    without compression the line after the first `offset_event` begins at byte `offset`. `passed_jobs` and `passed_stages` are
    the last ones of dropped batches of streams whose events came again. `sql_metrics` is what stages that run have counted and
    the records of their SQL executions lack, by execution and accumulator id. `started` is when the application started whose
    log this is (0: not known, as in a position of an earlier version): it tells the runs of an application apart.
    """

    roll: int = 0
    event: int = 0
    events: int = 0
    damaged: int = 0
    path: str = ""
    complete: bool = False
    size: int = 0
    missing_roll: int = 0
    event_crc: int = 0
    offset: int = 0
    offset_event: int = 0
    running: list[int] = []
    running_sql: list[int] = []
    passed_jobs: list[int] = []
    passed_stages: list[int] = []
    sql_metrics: dict[str, dict[str, int]] = {}
    started: int = 0


class Damage(msgspec.Struct, kw_only=True, tag_field="kind", tag="damage"):
    """A damaged line: its place, its problem, and its beginning and end."""

    path: str = ""
    roll: int = 0
    event: int = 0
    problem: str = ""
    text: str = ""
