"""Mutants of the files beside a log: overflow files, and claim files of contents. Who owns them, and what is read of them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TRANSACTIONS = "tests/unit/overflow/test_transactions.py"
FAULTS = "tests/unit/overflow/test_faults.py"
UNIT = f"{TRANSACTIONS} {FAULTS}"
STATES = "tests/unit/log/test_overflow_states.py"
FILES = "kvwal/log/overflow/files.py"
READ = "kvwal/log/overflow/read.py"

SHARED = "kvwal/content/shared.py"
SOURCE = "kvwal/content/source.py"
WRITER = "kvwal/content/writer.py"
GROUPS = "tests/unit/content/test_shared_files.py"
STREAMS = "tests/unit/content/test_streams.py"
READING = "tests/unit/content/test_reading.py"
BLOCKS = "tests/unit/content/test_blocks.py"
CONTAINERS = "tests/integration/content/test_containers.py"
KEPT = "tests/integration/content/test_kept.py"
CANCELLED = "tests/unit/content/test_cancelled.py"
VALUES = "tests/unit/values/test_kept.py"
READERS = "tests/unit/values/test_readers.py"

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
    Mutant(
        "a content gets its name before its bytes are durable", 2, "kvwal/content/files.py",
        "            return self.append(data, attributes)\n",
        "            import threading\n"
        "            threading.Thread(target=self.shared.append, args=(data, attributes)).start()\n"
        "            raise OSError(5, 'it is on its way')\n",
        GROUPS,
    ),
    Mutant(
        "a content goes into a file whose write has failed", 1, SHARED,
        "            else:\n                self._give_up_file()\n", "", GROUPS,
    ),
    Mutant(
        "a content in a shared file is settled before its entry is logged", 2, SHARED,
        "            self._settlement.unsettled(self._name, len(group))\n", "", GROUPS,
    ),
    Mutant(
        "the open shared file may be collected", 2, SHARED,
        "            self._settlement.unsettled(name)\n", "", GROUPS,
    ),
    Mutant(
        "what an interrupted thread put is never collected",
        8,
        SHARED,
        "                if failed is None and waiting.is_left and waiting.settles():\n",
        "                if False:\n",
        GROUPS,
    ),
    Mutant(
        "the main thread leads, where signal handlers run", 2, "kvwal/content/pending.py",
        "not signals_arrive_here() and has_room()", "has_room()", GROUPS,
    ),
    Mutant(
        "a file is settled when its thread is interrupted, though its entry may come yet", 2,
        "kvwal/structures/content/content.py",
        "        waiter.result()\n\n    def _logged", "        try:\n            waiter.result()\n        except BaseException:\n"
        "            files.settled(claim.file)\n            raise\n\n    def _logged", GROUPS,
    ),
    Mutant(
        "a closed store takes contents", 2, SHARED,
        "        self._closed = True\n        with self._intervention():\n", "        with self._intervention():\n",
        f"{GROUPS} {STREAMS}",
    ),
    Mutant(
        "a shared file keeps the space that was allocated ahead", 8, SHARED,
        "                self._file.truncate(self._end)\n            self._give", "                pass\n            self._give",
        GROUPS,
    ),
    Mutant(
        "a stream goes on after an interrupted write", 3, "kvwal/structures/content/stream.py",
        "            if not is_written:\n                self.discard()\n", "            pass\n", STREAMS,
    ),
    Mutant(
        "a large content that failed leaves its file", 8, WRITER,
        "            self._place.discard(own)\n", "            pass\n", STREAMS,
    ),
    Mutant(
        "a finished file that could not get a durable name stays", 8, "kvwal/content/own_file.py",
        "            self._disk.unlink(self._path)", "            pass", STREAMS,
    ),
    Mutant(
        "a forked child deletes the file of its parent", 2, "kvwal/content/files.py",
        "        if self._forked:\n            return  # the parent writes it\n", "", STREAMS,
    ),
    Mutant(
        "garbage collection waits for its own thread", 8, "kvwal/content/files.py",
        "        self._lock = RLock()\n        self._unsettled", "        from kvwal.ports.locks import Lock\n"
        "        self._lock = Lock()\n        self._unsettled", STREAMS,
    ),
    Mutant(
        "damaged bytes are given to the caller", 4, SOURCE,
        "        if extended(0, data) != claim.crc32c:\n            raise self.damaged(what, claim)\n", "", READING,
    ),
    Mutant(
        "a content that is read as a file is not compared with its checksum", 4, SOURCE,
        "            if self._checked == self._size and self._crc != self._claim.crc32c:\n", "            if False:\n", READING,
    ),
    Mutant(
        "a file that is being read is not held open", 2, SOURCE,
        "        return self._over(what, claim, begin, size, file)\n",
        "        return self._over(what, claim, begin, size, None)\n", READING,
    ),
    Mutant(
        "a read of a content whose file went meanwhile does not look again", 2, "kvwal/structures/content/reads.py",
        "                if claim.bytes_of == before.bytes_of:\n                    raise\n", "                raise\n", READING,
    ),
    Mutant(
        "a copy in a transaction does not keep the file", 2, "kvwal/structures/content/transaction.py",
        "            files.unsettled(claim.file)\n            self._changes.at_end(partial(files.settled, claim.file))\n",
        "", BLOCKS,
    ),
    Mutant(
        "a file of a transaction whose outcome is unknown may be collected", 2, "kvwal/structures/transaction.py",
        "            is_unknown = isinstance(failed, CommitUnknown)\n", "            is_unknown = False\n", BLOCKS,
    ),
    Mutant(
        "the cleaner does not look again at what is in use", 2, "kvwal/store/contents/care.py",
        "self._contents.files.only_settled(unnamed)", "unnamed", BLOCKS,
    ),
    Mutant(
        "a content of a task stays unsettled once its name is logged", 8, "kvwal/store/aio/content_streams.py",
        "            durable.files.settled(durable.file)\n", "            pass\n", CANCELLED,
    ),
    Mutant(
        "a task that is cancelled does not wait for the name of its content", 3, "kvwal/store/aio/content.py",
        "                await waiter.settled()\n            known(", "                pass\n            known(", CANCELLED,
    ),
    Mutant(
        "a content of a task whose name may be in the log is settled", 2, "kvwal/store/aio/content_streams.py",
        "        if not isinstance(error, CommitUnknown):\n", "        if True:\n", CANCELLED,
    ),
    Mutant(
        "a content of a task's block whose names may be in the log is settled", 2, "kvwal/store/aio/transaction.py",
        "            if not self._is_unknown:\n                pending.over()\n", "            pending.over()\n", CANCELLED,
    ),
    Mutant(
        "a task that is cancelled leaves a thread behind that writes its content", 8, "kvwal/store/aio/waiting.py",
        "            with suppress(asyncio.CancelledError):\n                await asyncio.wait([future])\n",
        "            break\n", CANCELLED,
    ),
    Mutant(
        "a claim file that only history names goes before its time", 8, "kvwal/archiver/kept_contents.py",
        "kept = {file: since[file] for file in sizes if now_ms - since[file] < keep.ms}", "kept: dict[str, int] = {}",
        KEPT,
    ),
    Mutant(
        "a claim file that was kept stays for ever", 8, "kvwal/archiver/kept_contents.py",
        "    old = [file for file in sizes if now_ms - since[file] >= keep.ms]\n", "    old: list[str] = []\n", KEPT,
    ),
    Mutant(
        "a claim file that grows too old during a checkpoint is forgotten, and stays", 8, "kvwal/store/contents/care.py",
        "            return Candidates(None, changes)\n", "            return Candidates([], changes)\n", KEPT,
    ),
    Mutant(
        "what the archive does not hold goes first for lack of room", 8, "kvwal/archiver/kept_contents.py",
        "key=lambda file: (file not in elsewhere,", "key=lambda file: (file in elsewhere,", KEPT,
    ),
    Mutant(
        "for lack of room files go that the log names", 2, "kvwal/archiver/contents.py",
        "    unnamed = {file: size for file, size in sizes.items() if file not in named}\n",
        "    unnamed = dict(sizes)\n", KEPT,
    ),
    Mutant(
        "kept claim files of an idle store stay", 8, "kvwal/store/scheduling/schedule.py",
        "now >= self._cleaning_due and may_clean()", "False", KEPT,
    ),
    Mutant(
        "a full disk keeps what only history names", 8, "kvwal/store/maintenance.py",
        '        await self.failing.contain("clean", self._clean_again)\n', "", KEPT,
    ),
    Mutant(
        "a command gives damaged bytes before it knows that they are", 5, SOURCE,
        "        if file is None or self._is_right(file, claim):\n", "        if True:\n",
        "tests/unit/content/test_commands.py",
    ),
    Mutant(
        "the file of a large value is collected, because no content has it", 2, "kvwal/content/claim.py",
        "    return not entry.deleted and (is_claimed(entry.value_class) or is_content(entry.key_class))\n",
        "    return not entry.deleted and is_content(entry.key_class)\n", VALUES,
    ),
    Mutant(
        "of a snapshot only the contents are asked for files, and not its large values", 2, "kvwal/content/named.py",
        "    return ALL if format >= WITH_LARGE_VALUES else CONTENT_RANGE\n", "    return CONTENT_RANGE\n", VALUES,
    ),
    Mutant(
        "the file of a large value goes from the archive, because no content has it", 2,
        "archive/kvwal_archive/contents/claims.py",
        "    if not _has_values(objects, info):\n", "    if True:\n", "tests/integration/content/test_values.py",
    ),
    Mutant(
        "a large value goes while an iterator shows it", 6, "kvwal/store/contents/care.py",
        "        if not await self._readers_ended():\n", "        if False:\n", VALUES,
    ),
    Mutant(
        "a cleaning waits for a reader that began after it", 8, "kvwal/store/contents/care.py",
        "        files.call_when_released(last, lambda", "        files.call_when_released(1 << 62, lambda", READERS,
    ),
    Mutant(
        "the bytes of an item go that a failed take puts back during a cleaning", 2, "kvwal/store/contents/care.py",
        " if name not in candidates.named]", "]", READERS,
    ),
    Mutant(
        "what an iterator finds goes before it keeps it", 6, "kvwal/structures/map/reads.py",
        "            hold = self._codecs.hold()  # before the look: from here on nothing is collected that it finds\n"
        "            on_error.enter_context(hold)\n            shown = begin()\n",
        "            shown = begin()\n            hold = self._codecs.hold()\n            on_error.enter_context(hold)\n",
        READERS,
    ),
    Mutant(
        "an error that is kept keeps large values", 8, "kvwal/structures/map/reads.py",
        "    finally:\n        hold.release()\n", "    finally:\n        pass\n", READERS,
    ),
    Mutant(
        "a large value that may be in the log is settled", 2, "kvwal/values/moved.py",
        "        if not isinstance(error, CommitUnknown):\n", "        if True:\n", VALUES,
    ),
    Mutant(
        "a log with a large value has the format of one without", 4, "kvwal/log/writer.py",
        "        if claims:  #", "        if False:  #", "tests/unit/values/test_maps.py",
    ),
    Mutant(
        "an entry that was refused keeps the claim on a large value that may be collected", 2, "kvwal/values/moved.py",
        "                entry.value, entry.value_class = value, value_class\n", "                pass\n",
        "tests/unit/values/test_kept.py",
    ),
    Mutant(
        "an item whose large value cannot be read is taken all the same", 2, "kvwal/structures/queue/queue.py",
        "                for entries in self._changes.taken(held):\n", "                for entries in ():\n", VALUES,
    ),
    Mutant(
        "equal JSON of other bytes differs, if it is a large value", 2, "kvwal/structures/map/conditions.py",
        "            if differs and self._class not in _SEVERAL_ENCODINGS:\n", "            if differs:\n",
        "tests/unit/values/test_maps.py",
    ),
    Mutant(
        "a container holds contents before it is on the list", 2, "kvwal/content/containers/homes.py",
        "        home.make_ready(self._disk, self._homes[0].folder)\n        return write(home)\n",
        "        done = write(home)\n        return done\n", CONTAINERS,
    ),
    Mutant(
        "the cleaner does not know containers", 8, "kvwal/archiver/contents.py",
        "    folders = list(claim_folders(disk, folder))\n    paths", "    folders = [folder]\n    paths", CONTAINERS,
    ),
    Mutant(
        "a backup leaves out what is in containers", 8, "kvwal/content/transfer.py",
        "in all_claim_files(disk, source)", "in all_claim_files(disk, source / '_')", CONTAINERS,
    ),
    Mutant(
        "two stores have one folder in a container", 2, "kvwal/content/containers/record.py",
        'f"{random_bits:032x}")', '"0" * 32)', CONTAINERS,
    ),
    Mutant(
        "an empty mount point is taken for a container", 2, "kvwal/content/containers/record.py",
        "container if inside is None else inside / CONTENT_FOLDER", "container", CONTAINERS,
    ),
]  # fmt: skip
