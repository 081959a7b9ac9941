"""Mutants of the archive, of what is dropped when, and of the reserve of a disk."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LAWS = "tests/property/test_archive_laws.py"
REWRITE = "tests/unit/archive/test_compaction.py"
REGISTRY = "tests/unit/archive/test_registry.py"
STORE = "tests/integration/store/test_archive.py"
FULL = "tests/unit/store/test_full_disk.py"

MUTANTS = [
    Mutant(
        "entries of equal timestamps merge in any order", 6, "archive/kvwal_archive/merge.py",
        '("timestamp", "descending"), ("node", "descending"), ("sequence", "descending"),\n)', '("timestamp", "descending"),\n)',
        LAWS,
    ),
    Mutant(
        "the older entry wins", 6, "archive/kvwal_archive/merge.py",
        "        return self.timestamp, self.node, self.sequence\n", "        return -self.timestamp, self.node, self.sequence\n",
        LAWS,
    ),
    Mutant(
        "a rewrite drops deletes", 6, "archive/kvwal_archive/maintenance/compaction.py",
        "    return table.filter(pc.invert(goes))\n",
        '    return table.filter(pc.and_(pc.invert(goes), pc.invert(table.column("deleted"))))\n',
        f"{LAWS} {REWRITE}",
    ),
    Mutant(
        "a rewrite compacts what is younger than the horizon", 6, "archive/kvwal_archive/maintenance/compaction.py",
        "    replaced = pc.and_(same, older[:-1])\n", "    replaced = pc.or_(same, older[:-1])\n",
        f"{LAWS} {REWRITE}",
    ),
    Mutant(
        "an object may be written over", 7, "archive/kvwal_archive/objects/local.py",
        "            link_new(partial, path)\n", "            os.replace(partial, path)\n",
        "tests/unit/objects/test_objects.py",
    ),
    Mutant(
        "a log that was taken over may go on writing", 7, "archive/kvwal_archive/writer.py",
        "    objects.look_again()\n    require_owner(objects, place, seals.log_id)\n", "",
        REGISTRY,
    ),
    Mutant(
        "of two copies that archive at once both are told that it is done", 8, "archive/kvwal_archive/writer.py",
        "        if is_new:\n            objects.delete(stored.key)\n        raise ArchiveError(",
        "        return stored\n        raise ArchiveError(",
        "tests/unit/archive/test_segments.py",
    ),
    Mutant(
        "any log may write under a node's name", 7, "archive/kvwal_archive/registry.py",
        "    if registration is not None and registration.log_id == log_id:\n        return registration\n",
        "    if registration is not None:\n        return registration\n",
        f"{REGISTRY} {STORE}",
    ),
    Mutant(
        "an object that stands in the way counts as ours", 7, "archive/kvwal_archive/writer.py",
        "    if its_footer.log_id != wanted.log_id:\n", "    if not its_footer.log_id:\n",
        f"{REGISTRY} tests/unit/archive/test_segments.py",
    ),
    Mutant(
        "rows are read without a look at their checksum", 4, "archive/kvwal_archive/parquet/metadata.py",
        '    if _body_crc(file, key) != footer.body_crc:\n', "    if footer.body_crc < 0:\n",
        "tests/unit/archive/test_segments.py tests/unit/archive/test_verify.py",
    ),
    Mutant(
        "rows of a key are read without a look at the checksums of their chunks", 4, "archive/kvwal_archive/parquet/columns.py",
        "        opened.check()\n        fields", "        fields",
        "tests/unit/archive/test_segments.py",
    ),
    Mutant(
        "a filter that nobody checked says that a key is absent", 4, "archive/kvwal_archive/parquet/lookup.py",
        '        if f"{google_crc32c.value(data):08x}" !=', '        if crcs and f"{0:08x}" ==',
        "tests/unit/archive/test_key_filter.py",
    ),
    Mutant(
        "a delete goes by rows that nobody checked", 4, "archive/kvwal_archive/maintenance/tombstones.py",
        "        opened.check()\n", "        pass\n",
        "tests/unit/archive/test_tombstones.py",
    ),
    Mutant(
        "a missing range of the archive is read over", 4, "archive/kvwal_archive/reader.py",
        "    if reached.gaps:\n        ranges", "    if reached.gaps and up_to:\n        ranges",
        "tests/unit/archive/test_segments.py tests/unit/archive/test_view.py",
    ),
    Mutant(
        "a segment goes before the archive has it", 8, "kvwal/store/maintenance.py",
        "            upto = min(upto, self.archived)\n", "            pass\n",
        STORE,
    ),
    Mutant(
        "a segment goes before a snapshot holds it", 8, "kvwal/store/maintenance.py",
        "        upto = self.log.covered\n", "        upto = self.archived\n",
        STORE,
    ),
    Mutant(
        "an object counts as archived that was not read back", 8, "archive/kvwal_archive/writer.py",
        "    objects.confirm(key, data)\n", "",
        "tests/unit/archive/test_segments.py tests/unit/objects/test_objects.py",
    ),
    Mutant(
        "gc trusts the object that supersedes", 8, "archive/kvwal_archive/maintenance/compaction.py",
        "        _check_bytes(objects, info)\n        for key in keys:\n",
        "        for key in keys:\n",
        REWRITE,
    ),
    Mutant(
        "gc does not wait", 8, "archive/kvwal_archive/maintenance/compaction.py",
        "    old_enough = [info for info in live if info.modified_ms <= now_ms - grace_ms]\n", "    old_enough = live\n",
        REWRITE,
    ),
    Mutant(
        "writes eat into the reserve", 8, "kvwal/ports/space.py",
        "        if need - have > usable:\n", "        if need < have:\n",
        FULL,
    ),
    Mutant(
        "a segment may be larger than what recovery could copy", 8, "kvwal/log/appender.py",
        "        self._most = min(settings.segment_bytes, copied)\n", "        self._most = settings.segment_bytes\n",
        FULL,
    ),
    Mutant(
        "a log that ran full waits for its timers", 8, "kvwal/store/scheduling/schedule.py",
        "            MaintenanceJob.RELIEVE: self._log.writer.full is not None and now >= self._relief_due,\n",
        "            MaintenanceJob.RELIEVE: self._log.writer.full is not None and now < 0,\n",
        f"{FULL}::test_a_store_that_ran_full_frees_space_without_being_told",
    ),
    Mutant(
        "a restore goes on with what a killed one left", 7, "kvwal/history/restore/restore.py",
        "        ports.disk.remove_tree(stage)\n", "",
        "tests/integration/store/test_restore.py::test_what_a_killed_restore_left_is_not_taken_over",
    ),
    Mutant(
        "a log that was taken over is not fenced", 7, "kvwal/history/restore/restore.py",
        "    fence(objects, place, header.log_id, last + 1)\n", "",
        "tests/integration/store/test_restore.py",
    ),
    Mutant(
        "a registration is read without a look at its checksum", 4, "archive/kvwal_archive/registry.py",
        "    if registration.crc and registration.crc != _crc(", "    if not registration.log_id and registration.crc != _crc(",
        REGISTRY,
    ),
    Mutant(
        "an older copy of a log archives under sequences that are taken", 8, "kvwal/archiver/work.py",
        "    _check_same_log(job, objects, covered)\n", "",
        f"{STORE}::test_an_older_copy_of_a_log_does_not_write_over_what_came_later",
    ),
    Mutant(
        "a reader passes over a missing segment", 4, "kvwal/log/unlocked/segments.py",
        "    if wrong is not None:\n", "    if wrong == \"\":\n",
        "tests/unit/log/test_read_damaged.py",
    ),
    Mutant(
        "a group that is written while a reader searches the end of the log is damage", 4, "kvwal/log/unlocked/segments.py",
        "base=reader.end) is None:\n", "base=reader.end) is None or rest:\n",
        "tests/unit/history/test_live_segment.py",
    ),
    Mutant(
        "a reader that stays open searches the end of a log once and never again", 4, "kvwal/log/unlocked/endings.py",
        "known.at <= ENDING_SECONDS", "known.at >= 0",
        "tests/unit/history/test_live_segment.py",
    ),
    Mutant(
        "a reader that stays open knows of blocks that were cut, and not of those that came to their place", 4,
        "kvwal/log/unlocked/known.py",
        "    return block is not None and (block.kind, block.crc, block.end) == (last.kind, last.crc, last.end)\n",
        "    return True\n",
        "tests/unit/log/test_known_segments.py",
    ),
    Mutant(
        "a reader that stays open passes a block that begins before the range", 4, "kvwal/log/unlocked/segment_keys.py",
        " - self._sparse)", ")",
        "tests/unit/log/test_segment_keys.py",
    ),
    Mutant(
        "a delete goes before the archive of another node has passed it", 6, "archive/kvwal_archive/maintenance/tombstones.py",
        "            passed = min(passed, 0 if reached.gaps else reached.max_timestamp)\n", "",
        "tests/property/test_archive_laws.py tests/unit/archive/test_tombstones.py",
    ),
    Mutant(
        "a delete goes that shadows the entry of another node", 6, "archive/kvwal_archive/maintenance/tombstones.py",
        "self._at[2] < _rank(timestamp, True)\n", "False\n",
        "tests/property/test_archive_laws.py tests/unit/archive/test_tombstones.py",
    ),
    Mutant(
        "a delete goes that shadows another node's put of the same timestamp", 6,
        "archive/kvwal_archive/maintenance/tombstones.py",
        "self._at[2] < _rank(timestamp, True)\n", "self._at[2] < _rank(timestamp, False)\n",
        "tests/unit/archive/test_tombstones.py",
    ),
]  # fmt: skip
