"""Mutants of overflow files: when they are durable, who owns them, and what is read of them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TRANSACTIONS = "tests/unit/overflow/test_transactions.py"
FAULTS = "tests/unit/overflow/test_faults.py"
UNIT = f"{TRANSACTIONS} {FAULTS}"
STATES = "tests/unit/log/test_overflow_states.py"
FILES = "kvwal/log/overflow/files.py"
READ = "kvwal/log/overflow/read.py"

MUTANTS = [
    Mutant(
        "an overflow file goes before its segment",
        2,
        "kvwal/log/log.py",
        "                    self.appender.preallocated.recycle(path)\n                    self.appender.overflow.drop(last)\n",
        "                    self.appender.overflow.drop(last)\n                    self.appender.preallocated.recycle(path)\n",
        "tests/crash/power/test_every_cut.py::test_every_cut_of_a_script[overflows-sync]",
    ),
    Mutant(
        "an overflow file stays when its segment goes",
        8,
        "kvwal/log/log.py",
        "                    self.appender.overflow.drop(last)\n",
        "",
        UNIT,
    ),
    Mutant(
        "what a crash left in the overflow folder stays",
        8,
        "kvwal/log/recovery.py",
        "                repair()\n            self._collect_overflow()\n",
        "                repair()\n",
        f"{UNIT} {STATES}",
    ),
    Mutant(
        "the overflow file of a segment that a snapshot covers is collected",
        2,
        "kvwal/log/recovery.py",
        "any(number in part for part in covered)",
        "False",
        f"{UNIT} {STATES}",
    ),
    Mutant(
        "a large transaction that was refused leaves its file",
        8,
        FILES,
        "                if number >= next_sequence:\n                    self._disk.unlink(path)\n",
        "                pass\n",
        UNIT,
    ),
    Mutant(
        "entries of an overflow file keep the timestamps that they were written with",
        3,
        READ,
        "                entry.timestamp = reference.timestamp\n",
        "                pass\n",
        UNIT,
    ),
    Mutant(
        "an overflow file is not compared with what the log says of it",
        5,
        READ,
        "        if (len(buffer), reader.count, crc) != (reference.bytes, reference.entries, reference.crc):\n",
        "        if False:\n",
        UNIT,
    ),
    Mutant(
        "a feed passes an overflow file after its first block",
        7,
        "kvwal/history/feeds/segment_cursor.py",
        "        if not rows or rows[-1][0] == self.next_sequence + count - 1:\n",
        "        if True:\n",
        f"{TRANSACTIONS}::test_a_cursor_reads_a_file_bit_by_bit",
    ),
    Mutant(
        "a backup leaves overflow files out",
        8,
        "kvwal/history/restore/backup.py",
        '        self._overflow(source / OVERFLOW, target / OVERFLOW, ends)\n',
        "",
        UNIT,
    ),
]  # fmt: skip
