"""Mutants of the log: what the writer, the segments, recovery and the checkpoint must never do."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

POWER = "tests/crash/power/test_cut.py"
FLUSH = "tests/unit/log/test_flush.py"
STATES = "tests/unit/log/test_recovery_states.py"
CUTS = "tests/crash/power/test_every_cut.py"
FAILED = "tests/crash/power/test_kill.py::test_failed_anywhere_then_cut_anywhere"

MUTANTS = [
    Mutant(
        "a write is acknowledged before it is written", 1, "kvwal/log/writer.py",
        "        return self._form(submissions)\n",
        "        group = self._form(submissions)\n"
        "        for submission in submissions:\n            submission.resolve()\n"
        "        return group\n",
        f"{FLUSH} tests/unit/log/test_poison.py",
    ),
    Mutant(
        "an unforced write under interval counts as synced", 1, "kvwal/log/appender.py",
        "            self.unsynced += sum(map(len, payloads))\n", "",
        FLUSH,
    ),
    Mutant(
        "memory has a write before the log has it", 2, "kvwal/log/writer.py",
        "        return self._form(submissions)\n",
        "        group = self._form(submissions)\n        self._state.apply(group.entries)\n        return group\n",
        "tests/unit/structures/test_map.py tests/unit/log/test_poison.py",
    ),
    Mutant(
        "a condition is judged without what stands before it in its group", 2, "kvwal/log/writer.py",
        "                view.add(decided)\n", "                pass\n",
        "tests/unit/structures/test_map.py",
    ),
    Mutant(
        "a forced answer does not wait for what it was judged on", 2, "kvwal/log/writer.py",
        "        elif group.sync and not self.appender.clean:\n            self.appender.sync()\n",
        "",
        FLUSH,
    ),
    Mutant(
        "the clock by which keys expire steps back", 2, "kvwal/hlc.py",
        "        return max(known, going_on)\n", "        return known\n",
        "tests/unit/store/test_time.py",
    ),
    Mutant(
        "a transaction is split into blocks", 3, "kvwal/log/writer.py",
        "        if len(entries) > begin:\n            payloads.append(encode_entries(entries[begin:]))\n",
        "        payloads += [encode_entries([entry]) for entry in entries[begin:]]\n",
        f"{POWER} tests/crash/test_cut_everywhere.py tests/crash/test_kill.py",
    ),
    Mutant(
        "a scan is not told what changes ahead of it", 3, "kvwal/structures/map/state.py",
        "            view.changes(entry, old)\n", "            pass\n",
        "tests/property/test_memory_laws.py",
    ),
    Mutant(
        "the crc of a block is not looked at", 4, "kvwal/log/files/format.py",
        "    if checksum(salt, base + offset, buffer[offset:start], payload) != crc:\n", "    if crc < 0:\n",
        "tests/property/test_log_laws.py tests/unit/log_files/test_golden_log.py",
    ),
    Mutant(
        "a frame is believed without a look at the size it says", 4, "kvwal/log/files/compression.py",
        "        if not 0 < zstd.frame_content_size(frame) <= most:\n", "        if not zstd.frame_content_size(frame):\n",
        "tests/unit/log_files/test_compression.py",
    ),
    Mutant(
        "the crc of a block does not depend on its file", 4, "kvwal/log/files/format.py",
        "google_crc32c.value(_PLACE.pack(salt, offset) +", "google_crc32c.value(_PLACE.pack(0, offset) +",
        "tests/property/test_log_laws.py tests/unit/log/test_segments.py",
    ),
    Mutant(
        "the chain of seals is not followed", 4, "kvwal/log/files/chain.py",
        "    return None if header.previous_crc == crc else BROKEN\n", "    return None\n",
        STATES,
    ),
    Mutant(
        "damage in front of durable blocks is taken for a crash", 4, "kvwal/log/reader.py",
        "        if any(durable):\n", "        if not last:\n",
        STATES,
    ),
    Mutant(
        "a segment in the middle needs no seal", 4, "kvwal/log/reader.py",
        "        if not last:\n            return SegmentEnd.DAMAGED\n", "",
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
        "tests/unit/log/test_poison.py",
    ),
    Mutant(
        "of two entries of a key the older one goes into the snapshot", 6, "kvwal/log/latest_entries.py",
        "            self._latest[entry.key_class, entry.key] = entry\n",
        "            self._latest.setdefault((entry.key_class, entry.key), entry)\n",
        "tests/property/test_checkpoint_laws.py",
    ),
    Mutant(
        "of two entries of a key in a large checkpoint the older one goes into the snapshot", 6, "kvwal/log/latest_entries.py",
        "merge_sorted(self._merged(runs[:middle]), self._merged(runs[middle:]))",
        "merge_sorted(self._merged(runs[middle:]), self._merged(runs[:middle]))",
        "tests/property/test_checkpoint_laws.py",
    ),
    Mutant(
        "a checkpoint forgets deletes that others must still see", 6, "kvwal/log/checkpoint.py",
        "        elif entry.timestamp > tombstones.before or holds(entry.key_class, entry.key, entry.timestamp):\n",
        "        elif holds(entry.key_class, entry.key, entry.timestamp):\n",
        "tests/property/test_checkpoint_laws.py tests/integration/store/test_archive.py",
    ),
    Mutant(
        "a delta forgets deletes of what is in the base", 6, "kvwal/log/checkpoint.py",
        "    if plan.kept:\n", "    if not plan:\n",
        "tests/property/test_checkpoint_laws.py",
    ),
    Mutant(
        "a part of a snapshot goes though no other holds all of it", 7, "kvwal/log/files/chain.py",
        "part != file and part.first <= file.first and file.number <= part.number", "part != file and file.number <= part.number",
        f"tests/property/test_checkpoint_laws.py {STATES}",
    ),
    Mutant(
        "a part of a snapshot that is missing is not missed", 4, "kvwal/log/files/chain.py",
        "    if not parts or parts[-1].first == 1:\n", "    if True:\n",
        f"{STATES} tests/unit/log_files/test_deltas.py",
    ),
    Mutant(
        "unfinished files stay for good", 7, "kvwal/log/files/atomic_file.py",
        "        if parse_name(name).kind is not FileKind.PARTIAL or", "        if parse_name(name).kind is not FileKind.LOCK or",
        STATES,
    ),
    Mutant(
        "a failed condition is answered before what it was judged on is durable", 2, "kvwal/log/writer.py",
        "            if not decided:\n", "            if not decided:\n                submission.resolve()\n",
        "tests/unit/log/test_poison.py",
    ),
    Mutant(
        "the crc of a block does not depend on its place", 4, "kvwal/log/files/format.py",
        "google_crc32c.value(_PLACE.pack(salt, offset) +", "google_crc32c.value(_PLACE.pack(salt, 0) +",
        "tests/property/test_log_laws.py",
    ),
    Mutant(
        "a seal need not fit what it seals", 4, "kvwal/log/reader.py",
        "        if (seal.entries, seal.bytes) != (self.count, block.offset) or seal.last_sequence != last:\n",
        "        if seal.last_sequence < 0:\n",
        f"{STATES} tests/unit/log_files/test_golden_log.py tests/property/test_log_laws.py",
    ),
    Mutant(
        "an fsync that failed is tried again", 5, "kvwal/log/files/segment.py",
        "            self._open.datasync()\n            self.clean = True\n",
        "            try:\n                self._open.datasync()\n"
        "            except OSError:\n                self._open.datasync()\n"
        "            self.clean = True\n",
        FAILED,
    ),
    Mutant(
        "what a failed fsync left in the page cache is sealed where it stands", 5, "kvwal/log/recovery.py",
        "            write_file(self._disk, reader.path, [whole, *parts])\n",
        '            self._write_again(reader.path, seal.bytes, b"".join(parts))\n',
        FAILED,
    ),
    Mutant(
        "the group under way is told that nothing was written", 5, "kvwal/log/writer.py",
        "        self._refuse(group.submissions, _unknown(error))\n",
        "        self._refuse(group.submissions, self.failure())\n",
        "tests/unit/log/test_poison.py",
    ),
    Mutant(
        "timestamps follow the wall clock back", 6, "kvwal/hlc.py",
        "            self.last = stamped = max(self.last + 1, wall_ms << TIMESTAMP_SHIFT)\n",
        "            self.last = stamped = wall_ms << TIMESTAMP_SHIFT\n",
        "tests/unit/test_hlc.py",
    ),
    Mutant(
        "an unfinished file has its name", 7, "kvwal/log/files/atomic_file.py",
        '    partial = path.with_name(partial_name(f"{path.name}.{tag}" if tag else path.name))\n', "    partial = path\n",
        CUTS,
    ),
    Mutant(
        "a block says of its own group that it was durable", 4, "kvwal/log/files/segment.py",
        "            flags = DURABLE if self.clean else 0\n", "            flags = DURABLE\n",
        CUTS,
    ),
    Mutant(
        "a forced write under another policy is not synced", 1, "kvwal/log/writer.py",
        "            sync = sync or submission.sync\n", "",
        f"{FLUSH} {CUTS}",
    ),
    Mutant(
        "the main thread writes, where a signal handler may end the write", 5, "kvwal/log/waiter.py",
        "        self.may_lead = not signals_arrive_here() and has_room()\n", "        self.may_lead = has_room()\n",
        "tests/integration/concurrency/test_turn.py",
    ),
    Mutant(
        "after a bug on a caller's thread the log goes on", 5, "kvwal/log/writer.py",
        "        self._poison(error)\n        self.ring.answer(submissions, _unknown(error))\n        self.ring.stop(error)\n",
        "        self.ring.answer(submissions, _unknown(error))\n",
        "tests/integration/concurrency/test_turn.py",
    ),
]  # fmt: skip
