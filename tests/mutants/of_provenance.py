"""Mutants of provenance: what an event, a file of events and a reader must never do."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FILES = "tests/unit/provenance/test_files.py"
LAWS = "tests/unit/provenance/test_laws.py"
STORE = "tests/unit/provenance/test_provenance.py"
EXPIRY = "tests/unit/provenance/test_expiry.py"
UNREADABLE = "tests/unit/provenance/test_unreadable.py"
ARCHIVED = "tests/unit/provenance/test_archived.py"
APART = "archive/kvwal_archive/maintenance/events.py"
RETENTION = "tests/unit/lineage/test_retention.py"
READING = "tests/unit/provenance/test_reading.py"
TERMS = "tests/unit/provenance/test_terms.py"
WRITE = "kvwal/history/provenance/write.py"
READER = "kvwal/history/provenance/reader.py"

MUTANTS = [
    Mutant(
        "a checkpoint leaves events out of the snapshot and writes them nowhere", 1, "kvwal/archiver/work.py",
        "    write_events(disk, clock, Path(job.folder), segments, entry_decoder())\n", "", STORE,
    ),
    Mutant(
        "a checkpoint that is run again writes the same events again", 3, WRITE,
        "        if segment.last <= covered:\n            continue\n", "", FILES,
    ),
    Mutant(
        "a file of events within the range of another one counts, too", 3, "kvwal/history/provenance/files.py",
        "        if not kept or file.last > kept[-1].last:\n            kept.append(file)\n",
        "        kept.append(file)\n", FILES,
    ),
    Mutant(
        "the events of a transaction that was written ahead are not in the log", 1, "kvwal/log/writer.py",
        "            submission.overflow = None\n        return derived\n", "        return derived\n", STORE,
    ),
    Mutant(
        "an event does not see the transactions before it in its group", 3, "kvwal/log/submission.py",
        "        if self._changed:\n            return [self.lookup(entry.key_class, entry.key) for entry in entries]\n",
        "", LAWS,
    ),
    Mutant(
        "what has expired is told of again after each restart", 3, "kvwal/structures/provenance/state.py",
        "                self.swept = decode_int(entry.value)\n", "                pass\n", EXPIRY,
    ),
    Mutant(
        "a prune deletes a run that goes on meanwhile", 1, "kvwal/lineage/openlineage/retention.py",
        "            if not events.commit_if(records, {}, part):\n                break\n",
        "            events.commit_if({part[0]: events.get(part[0])}, {}, part)\n", RETENTION,
    ),
    Mutant(
        "a prune deletes the record of a run before its events", 3, "kvwal/lineage/openlineage/retention.py",
        "            parts = [*_parts(of_subject), list(records)]\n",
        "            parts = [list(records), *_parts(of_subject)]\n",
        RETENTION,
    ),
    Mutant(
        "a prune deletes what a job without a run reads now", 3, "kvwal/lineage/openlineage/retention.py",
        "    *earlier, _ = sorted(keys) or [\"\"]\n", "    earlier = sorted(keys)\n", RETENTION,
    ),
    Mutant(
        "events leave the rows of the archive before they are in an object of their own", 1,
        "archive/kvwal_archive/maintenance/compaction.py",
        "            put_events(objects, place, job.inputs, files, apart, kept.events_until)\n", "            pass\n", ARCHIVED,
    ),
    Mutant(
        "events leave the history of the archive that is kept", 3, "archive/kvwal_archive/maintenance/compaction.py",
        "        self.events_until = min(job.horizon, newest)\n", "        self.events_until = newest\n", ARCHIVED,
    ),
    Mutant(
        "objects of events are removed before the object that has all of theirs is put", 7, APART,
        "            merged = _merge(objects, place, [listed[name] for name in group], apart)\n",
        "            for name in group:\n                objects.delete(listed[name][0])\n"
        "            merged = _merge(objects, place, [listed[name] for name in group], apart)\n", ARCHIVED,
    ),
    Mutant(
        "a damaged object of events stands for the whole one", 4, APART,
        "            if _has_the_same(objects, key, footer):\n                return key\n", "            return key\n", ARCHIVED,
    ),
    Mutant(
        "a restore has no event that left the rows of the archive", 1, "archive/kvwal_archive/restore.py",
        ", nodes, at, events=True)", ", nodes, at)", ARCHIVED,
    ),
    Mutant(
        "an event that cannot be decoded stops each checkpoint", 7, WRITE,
        "    except UNREADABLE:\n        readable, aside", "    except ZeroDivisionError:\n        readable, aside", UNREADABLE,
    ),
    Mutant(
        "an event that cannot be decoded is lost in a checkpoint", 1, WRITE,
        "            _write_aside(disk, clock, folder, file, aside)\n", "            pass\n", UNREADABLE,
    ),
    Mutant(
        "what was set aside is deleted by the next checkpoint", 1, WRITE,
        "file not in (asides if name == file.aside else kept)", "file not in kept", UNREADABLE,
    ),
    Mutant(
        "a repaired log has no event of the files", 4, "kvwal/scrub/repair.py",
        "*log.saved.snapshot, *log.events.entries]\n", "*log.saved.snapshot]\n", UNREADABLE,
    ),
    Mutant(
        "a search ends when a checkpoint merges its files", 7, READER,
        "            except FileNotFoundError:\n                continue\n            return\n",
        "            except FileNotFoundError:\n                return\n            return\n", READING,
    ),
    Mutant(
        "what was logged after the last file of events is not found", 1, READER,
        "question.before is not None and question.before <= look.covered", "question.before is not None", READING,
    ),
    Mutant(
        "a damaged file of terms hides events", 4, "kvwal/history/provenance/terms.py",
        "len(data) != size or google_crc32c.value(data) != crc", "len(data) != size", TERMS,
    ),
]  # fmt: skip
