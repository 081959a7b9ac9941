"""Mutants of provenance: what an event, a file of events and a reader must never do."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FILES = "tests/unit/provenance/test_files.py"
LAWS = "tests/unit/provenance/test_laws.py"
STORE = "tests/unit/provenance/test_provenance.py"
EXPIRY = "tests/unit/provenance/test_expiry.py"
WRITE = "kvwal/history/provenance/write.py"

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
]  # fmt: skip
