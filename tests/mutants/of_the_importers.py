"""Mutants of imports from other products: what is imported twice, or not at all, or without a word."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

GOLDEN = "tests/unit/importers/test_golden.py"
LOGS = "tests/integration/importers/test_import_logs.py"
EVENTS = "kvwal/cli/importers/events.py"

MUTANTS = [
    Mutant(
        "the ledger of an import is written after its items",
        3,
        EVENTS,
        '            t.map(LEDGER)[front + ":".join(map(str, identities[0]))] = encode(identities)\n',
        '        business.map(LEDGER)[front + ":".join(map(str, identities[0]))] = encode(identities)\n',
        f"{LOGS}::test_an_import_that_was_killed_is_completed_by_the_next_one",
    ),
    Mutant(
        "an event that was taken is imported",
        3,
        "kvwal/importers/flume/replay.py",
        "                if self._queue.pop(place, None) is None and",
        "                if place not in self._queue and",
        GOLDEN,
    ),
    Mutant(
        "a delete in a foreign log is passed over",
        6,
        "kvwal/importers/seatunnel/latest.py",
        "        if place > known:\n",
        "        if place > known and not record.deleted:\n",
        GOLDEN,
    ),
    Mutant(
        "damage of a foreign log is passed over without a word",
        4,
        "kvwal/importers/nifi/transactions.py",
        "    report.damaged(file.path, offset, end, error.what)\n",
        "",
        f"{LOGS}::test_a_damaged_log_is_imported_but_for_what_is_named",
    ),
]
