"""Mutants that each leave out one sync of a file or folder. A repository test checks that none is missing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CUTS = "tests/crash/power/test_every_cut.py"
KILL = "tests/crash/power/test_kill.py::test_killed_anywhere_then_cut_anywhere"
RECOVERY = "tests/crash/power/test_kill.py::test_the_recovery_fails_anywhere_then_cut_anywhere"
RESTORE = "tests/crash/power/test_restore.py"
FOLDER = "tests/crash/power/test_folder.py"
MERGE = "tests/crash/power/test_merge.py"
BACKUP = "tests/crash/power/test_backup.py"
CONTENTS = "tests/crash/power/test_contents.py"
OF_CONTENTS = f"{CONTENTS}::test_every_cut_of_a_script_with_contents[puts-sync]"
SEALED = f"{CONTENTS}::test_a_file_that_is_sealed_is_on_the_disk_as_it_is"
EXPORTED = f"{CONTENTS}::test_a_copy_outside_is_on_the_disk_when_the_export_returns"
GIVEN = f"{CONTENTS}::test_claim_files_that_another_folder_was_given_are_on_the_disk"
OVERFLOW = f"{CUTS}::test_every_cut_of_a_script[overflows-sync]"

RETIRED = "tests/unit/store/test_retirement.py::test_every_cut_of_a_log_that_goes_and_comes_back"
REST = "tests/unit/log/test_descriptors.py::test_an_fdatasync_that_fails_when_a_log_goes_to_rest_poisons_it"

MUTANTS = [
    Mutant(
        "an overflow file goes before the name of its segment is durably gone, after an error", 4, "kvwal/log/log.py",
        "            self._ports.disk.sync_folder(self.folder)\n", "",
        "tests/unit/overflow/test_faults.py",
    ),
    Mutant(
        "a file gets its name before it is durable", 7, "kvwal/log/files/atomic_file.py",
        "        yield file\n        file.datasync()\n", "        yield file\n",
        f"{RETIRED} {CUTS}",
    ),
    Mutant(
        "a file's name is not durable before what it replaces goes", 8, "kvwal/log/files/atomic_file.py",
        "    disk.rename(partial, path)\n    disk.sync_folder(path.parent)\n", "    disk.rename(partial, path)\n",
        f"{RETIRED} {CUTS} {KILL}",
    ),
    Mutant(
        "the end of a retired log is not durable when its folder goes", 1, "kvwal/log/files/retired.py",
        "        write_file(disk, _path(root, place), [_packed(clock, end)])\n",
        "        file = disk.create(_path(root, place))\n"
        "        file.write_at(0, [_packed(clock, end)])\n        file.close()\n",
        RETIRED,
    ),
    Mutant(
        "a snapshot is not durable before what it covers goes", 8, "kvwal/log/files/snapshot.py",
        '    with atomic_file(disk, folder / name, tag=f"{header.salt:08x}") as file:\n',
        "    from contextlib import closing\n    with closing(disk.create(folder / name)) as file:\n",
        CUTS,
    ),
    Mutant(
        "what recovery copied is not durable before the log goes on", 1, "kvwal/log/recovery.py",
        "            write_file(self._disk, reader.path, [whole, *parts])\n",
        "            self._disk.unlink(reader.path)\n            file = self._disk.create(reader.path)\n"
        "            file.write_at(0, [whole, *parts])\n            file.close()\n",
        f"{CUTS} {KILL}",
    ),
    Mutant(
        "a folder that goes has its old name on the disk, and half its files", 4, "kvwal/log/files/retired.py",
        "    disk.sync_folder(folder.parent)\n", "",
        RETIRED,
    ),
    Mutant(
        "a folder that goes may have no new name yet", 4, "kvwal/log/files/retired.py",
        "    disk.sync_folder(gone.parent)  # the new name first: see tests/support/disk/power.py\n", "",
        RETIRED,
    ),
    Mutant(
        "a merged log that goes has its old name on the disk, and half its files", 4, "kvwal/store/root_nodes/merge.py",
        "        self._disk.sync_folder(folder.parent)\n", "",
        MERGE,
    ),
    Mutant(
        "a merged log that goes may have no new name yet", 4, "kvwal/store/root_nodes/merge.py",
        "        self._disk.sync_folder(gone.parent)  # the new name first: see tests/support/disk/power.py\n", "",
        MERGE,
    ),
    Mutant(
        "a group is acknowledged without an fdatasync", 1, "kvwal/log/appender.py",
        "        self._segment.datasync()\n", "",
        CUTS,
    ),
    Mutant(
        "a group counts as durable without an fdatasync", 1, "kvwal/log/files/segment.py",
        "            self._open.datasync()\n            self.clean = True\n", "            self.clean = True\n",
        CUTS,
    ),
    Mutant(
        "a log goes to rest before its segment is durable", 1, "kvwal/log/files/segment.py",
        "        self.datasync()\n        file, self._file = ", "        file, self._file = ",
        REST,
    ),
    Mutant(
        "a segment gets its name before its header is durable", 1, "kvwal/log/files/segment.py",
        "        file.write_at(0, [*parts, _END_MARK])\n        file.datasync()\n",
        "        file.write_at(0, [*parts, _END_MARK])\n",
        CUTS,
    ),
    Mutant(
        "a segment's name is not durable before its first group", 1, "kvwal/log/files/segment.py",
        "        disk.rename(file.path, self.path)\n        names.sync()\n",
        "        disk.rename(file.path, self.path)\n",
        CUTS,
    ),
    Mutant(
        "a seal is written before what it seals is durable", 1, "kvwal/log/files/segment.py",
        "        self.datasync()\n        last = ", "        last = ",
        CUTS,
    ),
    Mutant(
        "a seal is not durable before the next segment", 1, "kvwal/log/files/segment.py",
        "            self._open.truncate(size)\n        self._open.datasync()\n", "            self._open.truncate(size)\n",
        CUTS,
    ),
    Mutant(
        "a spare is not on the disk when it is used", 1, "kvwal/log/files/preallocation.py",
        "                )\n                file.datasync()\n", "                )\n",
        f"{CUTS}::test_a_spare_is_on_the_disk_before_it_is_used",
    ),
    Mutant(
        "a recycled segment keeps its old name on the disk", 1, "kvwal/log/files/preallocation.py",
        "        try:\n            self._disk.sync_folder(self._folder)\n        except OSError:\n",
        "        try:\n            pass\n        except OSError:\n",
        CUTS,
    ),
    Mutant(
        "segments are deleted in any order", 7, "kvwal/log/files/preallocation.py",
        "            self._disk.unlink(path)\n            self._disk.sync_folder(self._folder)\n            return\n",
        "            self._disk.unlink(path)\n            return\n",
        CUTS,
    ),
    Mutant(
        "a seal that may be in the page cache only is taken for durable", 1, "kvwal/log/recovery.py",
        "            file.write_at(offset, [seal])\n            file.datasync()\n", "            file.write_at(offset, [seal])\n",
        KILL,
    ),
    Mutant(
        "a copy whose name may be in the page cache only is taken for durable", 1, "kvwal/log/recovery.py",
        "            file.close()\n        self._disk.sync_folder(self._folder)\n", "            file.close()\n",
        RECOVERY,
    ),
    Mutant(
        "a new folder's name is not durable", 1, "kvwal/ports/disk.py",
        "        else:\n            self.sync_folder(folder.parent)\n", "",
        CUTS,
    ),
    Mutant(
        "a folder that a killed program made is taken for durable", 1, "kvwal/ports/disk.py",
        "            with suppress(PermissionError):  # then another program created it\n"
        "                self.sync_folder(folder.parent)\n",
        "",
        KILL,
    ),
    Mutant(
        "fdatasync does nothing", 1, "kvwal/ports/posix/files.py",
        "        os.fdatasync(self._fd)\n", "        pass\n",
        FOLDER,
    ),
    Mutant(
        "fsync of a folder does nothing", 1, "kvwal/ports/posix/files.py",
        "            os.fsync(self._fd)\n", "            pass\n",
        FOLDER,
    ),
    Mutant(
        "a restored root's name is not durable", 7, "kvwal/history/restore/restore.py",
        "    disk.sync_folder(root / namespace)\n", "",
        RESTORE,
    ),
    Mutant(
        "a restored root's old name may come back", 7, "kvwal/history/restore/restore.py",
        "    disk.sync_folder(root)\n", "",
        RESTORE,
    ),
    Mutant(
        "an object gets its name before it is durable", 7, "archive/kvwal_archive/objects/local.py",
        "                os.fsync(file.fileno())\n", "",
        FOLDER,
    ),
    Mutant(
        "an object's name is not durable when it counts as put", 8, "archive/kvwal_archive/objects/local.py",
        "                os.fsync(descriptor)\n", "                pass\n",
        FOLDER,
    ),
    Mutant(
        "an object that a killed process put is taken for durable", 8, "archive/kvwal_archive/objects/local.py",
        "            self._sync_folders(path)\n", "            if fresh:\n                self._sync_folders(path)\n",
        FOLDER,
    ),
    Mutant(
        "a watch shows another process's group before it is durable", 2, "kvwal/history/feeds/segment_cursor.py",
        "        try:\n            file.datasync()\n        finally:\n            file.close()\n", "        file.close()\n",
        "tests/unit/store/test_watch.py::test_a_reader_makes_a_group_durable_before_it_shows_it",
    ),
    Mutant(
        "a watch syncs another process's file once for all groups", 2, "kvwal/history/feeds/segment_cursor.py",
        "segment.window.reads == segment.durable:\n", "segment.durable:\n",
        "tests/unit/store/test_watch_files.py",
    ),
    Mutant(
        "a backup's name is not durable when it returns", 1, "kvwal/history/restore/backup.py",
        "            disk.sync_folder(target.parent)\n", "", BACKUP,
    ),
    Mutant(
        "the names of a backup's files are not durable", 1, "kvwal/history/restore/backup.py",
        "                self._disk.sync_folder(target)\n", "", BACKUP,
    ),
    Mutant(
        "the ends of retired logs are not durable in a backup", 1, "kvwal/history/restore/backup.py",
        "                    self._end(source / name, target / name)\n        self._disk.sync_folder(target)\n",
        "                    self._end(source / name, target / name)\n", BACKUP,
    ),
    Mutant(
        "a copied file of a backup is not durable", 1, "kvwal/log/files/atomic_file.py",
        "[disk.read_part(source, offset, _STEP)])\n        file.datasync()\n", "[disk.read_part(source, offset, _STEP)])\n",
        f"{BACKUP} {GIVEN}",
    ),
    Mutant(
        "the names of a backup's overflow files are not durable", 1, "kvwal/history/restore/backup.py",
        "            self._copied(source / name, target / name)\n        self._disk.sync_folder(target)\n",
        "            self._copied(source / name, target / name)\n", BACKUP,
    ),
    Mutant(
        "an overflow file is not synced before its block", 1, "kvwal/log/overflow/files.py",
        "            written.flush()\n            file.datasync()\n", "            written.flush()\n", OVERFLOW,
    ),
    Mutant(
        "the name of an overflow file is not durable before its block", 1, "kvwal/log/overflow/files.py",
        "        self._disk.sync_folder(self._folder)\n", "", OVERFLOW,
    ),
    Mutant(
        "the bytes of a large content are not durable before its name", 1, "kvwal/content/own_file.py",
        "            file.datasync()\n            self._disk.rename(", "            self._disk.rename(", OF_CONTENTS,
    ),
    Mutant(
        "the file of a large content has no durable name before its entry", 1, "kvwal/content/own_file.py",
        "            self._disk.sync_folder(self._path.parent)\n", "", OF_CONTENTS,
    ),
    Mutant(
        "the bytes of a small content are not durable before its name", 1, "kvwal/content/shared.py",
        "            file.write_at(self._end, parts)\n            file.datasync()\n",
        "            file.write_at(self._end, parts)\n", OF_CONTENTS,
    ),
    Mutant(
        "a shared claim file has no durable name before its first content", 1, "kvwal/content/shared.py",
        "                    self._disk.sync_folder(path.parent)\n", "                    pass\n", OF_CONTENTS,
    ),
    Mutant(
        "a sealed claim file may be longer after a power cut than its object", 8, "kvwal/content/shared.py",
        "                    self._file.truncate(self._end)\n                    self._file.datasync()\n",
        "                    self._file.truncate(self._end)\n", SEALED,
    ),
    Mutant(
        "the bytes of an export are not durable when it returns", 1, "kvwal/content/source.py",
        "                file.datasync()\n", "", EXPORTED,
    ),
    Mutant(
        "the name of an export is not durable when it returns", 1, "kvwal/content/source.py",
        "                self._disk.sync_folder(path.parent)\n", "", EXPORTED,
    ),
    Mutant(
        "the names of claim files that a copy was given are not durable", 1, "kvwal/content/transfer.py",
        "    for section in sorted(sections):\n        disk.sync_folder(section)\n", "", GIVEN,
    ),
]  # fmt: skip
