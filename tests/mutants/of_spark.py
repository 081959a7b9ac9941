"""Mutants of kept event logs and of lineage: half a log or event that is kept, and what records or runs made anew lose."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KEEPING = "tests/unit/kept/test_keeping.py"
REPLAY = "tests/unit/kept/test_replay.py"
EVENTS = "tests/unit/lineage/test_events.py"
RUNS = "kvwal/lineage/openlineage/runs.py"

MUTANTS = [
    Mutant(
        "an event log is kept without one of its rolls",
        4,
        "kvwal/spark/kept/keeping.py",
        "    if missing:\n",
        "    if missing < 0:\n",
        f"{KEEPING}::test_a_rolling_log_without_one_of_its_rolls_is_not_kept",
    ),
    Mutant(
        "the log of an earlier run replaces the kept log of a later one",
        3,
        "kvwal/spark/kept/keeping.py",
        '_number(stored, "started")) > identity.started:',
        '_number(stored, "started")) > identity.started + (1 << 60):',
        f"{KEEPING}::test_a_log_of_an_earlier_run_does_not_replace_that_of_a_later_one",
    ),
    Mutant(
        "the bytes of a kept log are taken without a look at their number",
        4,
        "kvwal/spark/kept/reader.py",
        "                if len(data) != table.log_sizes[number]:\n",
        "                if len(data) > table.log_sizes[number]:\n",
        "tests/unit/kept/test_format.py::test_a_seek_table_of_the_right_length_with_wrong_sizes_is_told",
    ),
    Mutant(
        "records that a kept log does not make stay",
        3,
        "kvwal/spark/eventlog/runs.py",
        "self._keys() if anew else set()",
        "set()",
        REPLAY,
    ),
    Mutant(
        "what a recorder saw of the end is not in the first transaction of records made anew",
        3,
        "kvwal/spark/kept/replay.py",
        "return log._replace(before=before, after=after)",
        "return log._replace(after=after)",
        f"{REPLAY}::test_a_command_that_is_killed_and_run_again_leaves_what_one_run_leaves",
    ),
    Mutant(
        "the kept log of an application that has gone on is pruned",
        3,
        "kvwal/spark/retention.py",
        "        if isinstance(found, Application) and not _is_old(found, before):\n            continue\n        for name",
        "        for name",
        f"{KEEPING}::test_the_kept_log_of_an_application_that_has_gone_on_stays",
    ),
    Mutant(
        "a late event of a run opens it again",
        3,
        RUNS,
        "key=lambda told: (_RANKS.get(told.state, 0), told.state_at, told.state)",
        "key=lambda told: (told.state_at, _RANKS.get(told.state, 0), told.state)",
        f"{EVENTS}::test_a_run_that_failed_ends_so_also_where_a_clock_is_ahead",
    ),
    Mutant(
        "two writers of one run overwrite each other",
        3,
        "kvwal/lineage/openlineage/event_store.py",
        "                    conditions[key] = ABSENT if known is None else known\n",
        "",
        "tests/integration/lineage/test_console.py::test_many_clients_at_once_lose_no_event",
    ),
]
