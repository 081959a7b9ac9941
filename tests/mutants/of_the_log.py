"""Mutants of the log: what the writer, the segments, recovery and the checkpoint must never do."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

POWER = "tests/crash/test_power_cut.py"
FLUSH = "tests/unit/test_flush.py"
STATES = "tests/unit/test_recovery_states.py"

MUTANTS = [
    Mutant(
        "a write is acknowledged before it is written", 1, "kvwal/log/writer.py",
        "        group = self._form(submissions)\n        try:",
        "        group = self._form(submissions)\n"
        "        for submission in submissions:\n            submission.resolve()\n"
        "        try:",
        f"{FLUSH} tests/unit/test_poison.py",
    ),
    Mutant(
        "an unforced write under interval counts as synced", 1, "kvwal/log/appender.py",
        "        self.unsynced += sum(map(len, payloads))\n", "",
        FLUSH,
    ),
    Mutant(
        "memory has a write before the log has it", 2, "kvwal/log/writer.py",
        "        try:\n            await self._write(group)\n",
        "        self._memory.apply(group.entries)\n        try:\n            await self._write(group)\n",
        "tests/unit/test_map.py tests/unit/test_poison.py",
    ),
    Mutant(
        "a condition is judged without what stands before it in its group", 2, "kvwal/log/writer.py",
        "                overlay.add(mine)\n", "                pass\n",
        "tests/unit/test_map.py",
    ),
    Mutant(
        "a forced answer does not wait for what it was judged on", 2, "kvwal/log/writer.py",
        "        elif group.sync and not self._appender.clean:\n            await self._workers.commit(self._appender.sync)\n",
        "",
        FLUSH,
    ),
    Mutant(
        "the clock by which keys expire steps back", 2, "kvwal/business.py",
        "        return max(now, self._present)\n", "        return now\n",
        "tests/unit/test_time.py",
    ),
    Mutant(
        "a transaction is split into blocks", 3, "kvwal/log/writer.py",
        "        if len(entries) > begin:\n            payloads.append(encode_entries(entries[begin:]))\n",
        "        payloads += [encode_entries([entry]) for entry in entries[begin:]]\n",
        f"{POWER} tests/crash/test_cut_everywhere.py tests/crash/test_kill.py",
    ),
    Mutant(
        "a scan looks at its moment only when it is asked for the next key", 3, "kvwal/structures/state.py",
        "            entries = [table[key] for name, table in sorted(self.tables.items()) for key in self._order(name)]\n",
        "            entries = (table[key] for name, table in sorted(self.tables.items()) for key in self._order(name))\n",
        "tests/unit/test_map_reads.py",
    ),
    Mutant(
        "the crc of a block is not looked at", 4, "kvwal/log/format.py",
        "    if checksum(salt, offset, buffer[offset:start], payload) != crc:\n", "    if crc < 0:\n",
        "tests/property/test_log_laws.py tests/unit/test_golden_log.py",
    ),
    Mutant(
        "the crc of a block does not depend on its file", 4, "kvwal/log/format.py",
        "google_crc32c.value(_PLACE.pack(salt, offset) +", "google_crc32c.value(_PLACE.pack(0, offset) +",
        "tests/property/test_log_laws.py tests/unit/test_segments.py",
    ),
    Mutant(
        "the chain of seals is not followed", 4, "kvwal/log/recovery.py",
        "        if header.previous_crc != self._crc:\n", "        if header.previous_crc < 0:\n",
        STATES,
    ),
    Mutant(
        "damage in front of durable blocks is taken for a crash", 4, "kvwal/log/reader.py",
        "        return End.DAMAGED if any(block.flags & DURABLE for block in later) else End.TORN\n",
        "        return End.TORN if any(block.flags & DURABLE for block in later) else End.TORN\n",
        STATES,
    ),
    Mutant(
        "a segment in the middle needs no seal", 4, "kvwal/log/recovery.py",
        "            if ending is End.DAMAGED or (ending is End.TORN and not last):\n", "            if ending is End.DAMAGED:\n",
        STATES,
    ),
    Mutant(
        "a torn tail is cut without a trace", 4, "kvwal/log/recovery.py",
        "        if lost:\n            evidence", "        if lost < 0:\n            evidence",
        STATES,
    ),
    Mutant(
        "after a failed fsync the log goes on", 5, "kvwal/log/writer.py",
        "        self.failed = error\n", "        self.failed = None\n",
        "tests/unit/test_poison.py",
    ),
    Mutant(
        "of two entries of a key the older one goes into the snapshot", 6, "kvwal/log/checkpoint.py",
        "                for entry in entries:\n                    latest[entry.key_class, entry.key] = entry\n",
        "                for entry in entries:\n                    latest.setdefault((entry.key_class, entry.key), entry)\n",
        "tests/property/test_checkpoint_laws.py",
    ),
    Mutant(
        "a checkpoint forgets deletes that others must still see", 6, "kvwal/log/checkpoint.py",
        "(entry.deleted and entry.timestamp <= tombstones_before)", "entry.deleted",
        "tests/property/test_checkpoint_laws.py tests/integration/test_store_archive.py",
    ),
    Mutant(
        "unfinished files stay for good", 7, "kvwal/log/recovery.py",
        "        if parse_name(name).kind is FileKind.PARTIAL:\n", "        if parse_name(name).kind is FileKind.LOCK:\n",
        STATES,
    ),
]  # fmt: skip
