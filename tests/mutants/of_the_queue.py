"""Mutants of queues: what a put, a take and a block must never do."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

QUEUE = "tests/unit/queue/test_queue.py"
MODEL = "tests/unit/queue/test_queue_model.py"
STATE = "kvwal/structures/queue/state.py"
FORMATS = "tests/unit/log_files/test_queue_format.py"
CHANGES = "kvwal/structures/queue/changes.py"

MUTANTS = [
    Mutant(
        "a take is acknowledged, and not in the log",
        1,
        CHANGES,
        "            return deletes_of(self._handed_out(group, most, held, decodes=not purges))\n",
        "            self._handed_out(group, most, held, decodes=not purges)\n            return []\n",
        f"{MODEL} {QUEUE}",
    ),
    Mutant(
        "an item is given to two takers",
        2,
        STATE,
        "                key = order.pop(0)\n                entry = self._in_flight[key] = self._ready.pop(key)\n",
        "                key, most = order[0], most - 1\n                entry = self._in_flight[key] = self._ready[key]\n",
        f"{MODEL} {QUEUE}",
    ),
    Mutant(
        "a block that raised keeps its items",
        3,
        STATE,
        "                    self._ready[entry.key] = entry\n                    if self._order is not None:\n",
        "                    if False:\n",
        f"{MODEL} {QUEUE}",
    ),
    Mutant(
        "a transaction that was not written keeps its items",
        3,
        "kvwal/structures/transaction.py",
        "        except Exception:\n            pending.give_back()\n            raise\n",
        "        except Exception:\n            raise\n",
        QUEUE,
    ),
    Mutant(
        "a take that was not written keeps its items",
        2,
        "kvwal/structures/queue/queue.py",
        "        except Exception:\n            self._state.give_back(held)\n            raise\n",
        "        except Exception:\n            raise\n",
        QUEUE,
    ),
    Mutant(
        "a block puts, and does not take",
        3,
        CHANGES,
        "        return placed(self.puts, group) + self._deletes()\n",
        "        return placed(self.puts, group)\n",
        f"{MODEL} {QUEUE}",
    ),
    Mutant(
        "a position is given again",
        6,
        CHANGES,
        "        entry.key = key_of(priority, position)\n",
        "        entry.key = key_of(priority, (position >> 16 << 16) + len(entries))\n",
        f"{QUEUE} {MODEL}",
    ),
    Mutant(
        "two items of one transaction have one position",
        6,
        CHANGES,
        "        entry.key = key_of(priority, position)\n",
        "        entry.key = entries[0].key if entries else key_of(priority, position)\n",
        f"{MODEL} {QUEUE}",
    ),
    Mutant(
        "priorities do not count",
        2,
        "kvwal/structures/queue/positions.py",
        "    number = (priority << _BITS) + position\n",
        "    number = position\n",
        f"{MODEL} {QUEUE}",
    ),
    Mutant(
        "an expired item is taken",
        2,
        STATE,
        "                if is_live(entry, now):\n                    taken.append(entry)\n",
        "                if now:\n                    taken.append(entry)\n",
        QUEUE,
    ),
    Mutant(
        "the keys of a named map are those of the business's own",
        6,
        "kvwal/structures/map/named.py",
        "        return data, self._front + key_class\n",
        "        return data, key_class\n",
        f"{MODEL} {QUEUE}",
    ),
    Mutant(
        "the first item is written into a file that a version without queues opens",
        2,
        "kvwal/log/writer.py",
        "        return FORMAT if view is None or self.appender.header.format > FORMAT else format_for(view.classes())\n",
        "        return FORMAT\n",
        FORMATS,
    ),
    Mutant(
        "a snapshot with items is one that a version without queues opens",
        2,
        "kvwal/log/checkpoint.py",
        "        format=max(plan.format, *(header.format for header in headers)),\n",
        "        format=FORMAT,\n",
        FORMATS,
    ),
    Mutant(
        "a log with items that is taken over is one that a version without queues opens",
        2,
        "kvwal/history/restore/restore.py",
        "    write_snapshot(ports.disk, ports.clock, folder, snapshot, blocks(), format=lambda: format)\n",
        "    write_snapshot(ports.disk, ports.clock, folder, snapshot, blocks())\n",
        FORMATS,
    ),
    Mutant(
        "the segment before the first item is not sealed",
        1,
        "kvwal/log/appender.py",
        "            if old.entries:\n                done = old.seal()\n",
        "            if old.entries and format == FORMAT:\n                done = old.seal()\n",
        FORMATS,
    ),
]
