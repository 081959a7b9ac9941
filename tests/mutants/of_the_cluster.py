"""Mutants of what members agree on: whose presence counts, how far clocks run, who has archived; and of who comes back."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LIMITS = "tests/unit/cluster/test_clock_bounds.py"
QUORUM = "tests/unit/cluster/test_quorum.py"
ARCHIVING = "tests/unit/cluster/test_archiving.py"
RETURNING = "tests/unit/cluster/test_rejoin.py"

MUTANTS = [
    Mutant(
        "a member that takes a key over stamps by its own clock alone", 6, "kvwal/cluster/clock_bounds.py",
        "        stamp = max(last + 1, self._low_watermark, wall)\n", "        stamp = max(last + 1, wall)\n", LIMITS,
    ),
    Mutant(
        "the latest timestamps of living members do not count where keys are taken over", 6, "kvwal/cluster/clock_bounds.py",
        "    return max([*limits, *(timestamp + 1 for timestamp in latest.values())], default=0)\n",
        "    return max(limits, default=0)\n", LIMITS,
    ),
    Mutant(
        "the limit of a member that went does not count where its keys are taken over", 6, "kvwal/cluster/clock_bounds.py",
        "    limits = (bound.limit for bound in bounds if bound.member not in latest)\n",
        "    limits = (bound.limit for bound in bounds if bound.member in latest)\n", LIMITS,
    ),
    Mutant(
        "a member stamps what the others were not told", 6, "kvwal/cluster/clock_bounds.py",
        "        if self._limit is not None and stamp >= self._limit:\n",
        "        if self._limit is not None and stamp >= self._limit << 1:\n", LIMITS,
    ),
    Mutant(
        "half of the expected members is enough", 6, "kvwal/cluster/quorum.py",
        "        return 2 * len(set(self.names) & set(there)) > len(self.names)\n",
        "        return 2 * len(set(self.names) & set(there)) >= len(self.names)\n", QUORUM,
    ),
    Mutant(
        "who counts changes while a member goes by the list before", 6, "kvwal/cluster/quorum.py",
        "    return all(known.get(name) == current.version", "    return any(known.get(name) == current.version", QUORUM,
    ),
    Mutant(
        "one member that has archived counts for all", 6, "kvwal/node/adapters/archive_requests.py",
        "        return sorted(set(living) - done)\n", "        return [] if done else sorted(living)\n", ARCHIVING,
    ),
    Mutant(
        "a member that has told nothing yet has archived", 6, "kvwal/node/adapters/archive_requests.py",
        "        return sorted(set(living) - done)\n", "        return sorted({status.name for status in statuses} - done)\n",
        ARCHIVING,
    ),
    Mutant(
        "what was archived for another member counts for a member that asks later", 6, "kvwal/node/adapters/archive_requests.py",
        "        asked = {s.name: s.asks for s in statuses if s.asks > self.answered.get(s.name, 0)}\n",
        "        asked = {s.name: s.asks for s in statuses if s.asks > max(self.answered.values(), default=0)}\n", ARCHIVING,
    ),
    Mutant(
        "what was logged between the two looks is undone", 6, "kvwal/cluster/rejoin.py",
        "        newer = self._after(business, None,", "        newer = self._after(business, {self._node: None},", RETURNING,
    ),
    Mutant(
        "what came into memory between the two looks is overwritten", 6, "kvwal/cluster/rejoin.py",
        "        return [locked for locked in locked_keys if _is_lacking(*locked)]\n", "        return locked_keys\n", RETURNING,
    ),
]  # fmt: skip
