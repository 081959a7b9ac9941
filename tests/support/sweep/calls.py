"""Kills, or hurts, a whole life (`tests.support.sweep.lifecycle`) at its system calls, and looks at what is left each time.

    python -m tests.support.sweep.calls FOLDER list
    python -m tests.support.sweep.calls FOLDER MODE NUMBER…

The first lists the calls of a life that nobody hurts. The second hurts one life at each of the NUMBERs; one that ended before
its turn came is the last. Each is a line of JSON on standard output.

Modes: `program` kills the program at a call of any process; the archiver's process then does what it has begun, and ends.
`archiver` kills the archiver's process alone, `both` kills both, each at the archiver's own calls. `orphan` kills the program,
and holds the archiver's call until somebody else has opened the store and lived a whole life in it. One in capitals is the errno
with which the call fails (`EIO`).
"""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

# What a life needs, and what that loads in its turn (Arrow looks for pandas), is loaded once, before it is forked.
import duckdb  # noqa: F401
import pandas  # noqa: F401
import pyarrow.compute
import pyarrow.dataset
import pyarrow.pandas_compat
import pyarrow.parquet  # noqa: F401

import kvwal
import kvwal.history.restore
from kvwal_archive.objects import open_objects
from kvwal_archive.verify import verify
from tests.support.sweep.lifecycle import STAGES, Life, Model, apply, held_by, transactions
from tests.support.sweep.syscalls import Call, adopt_orphans
from tests.support.sweep.victim import REFUSED, Victim, archivers, fork

OF_THE_ARCHIVER = ("archiver", "both", "orphan")
"""The modes that count the calls of the archiver's process alone."""

WORDS = {"EIO": ("eio", "input/output error"), "ENOSPC": ("no space left", "disk is full")}
"""Of which an error says one that comes of this errno."""


class SweepPoint(NamedTuple):
    """One try: which call it was, in which stage of the life, and what was wrong afterwards, if anything.

    `alone`: the number counts the calls of the archiver's process alone.
    """

    number: int
    name: str | None
    path: str
    stage: str
    wrong: str | None = None
    alone: bool = False


def states(begun: Model, told: list[str], generation: int = 0) -> list[Model]:
    """What may be found: what was acknowledged, and that with the transaction that was on its way.

    One that raised was not on its way any more, with one exception.
    """
    pending = iter([changes for stage in STAGES for changes in transactions(generation, stage)])
    known = begun
    for word in told:
        if word == "done":
            known = apply(known, next(pending))
    refused = told[-1].startswith("refused") and "CommitUnknown" not in told[-1]
    if refused or told.count("begin") == told.count("done"):
        return [known]
    return [known, apply(known, next(pending))]


def check(base: Path, wanted: list[Model], generation: int, *, tidy: bool = True) -> None:
    """What a life left: what must be there, that the archive is whole, and that the next life, which is written down, goes on."""
    start = archivers()
    life = Life(base, 0, lambda word: None, start)
    with kvwal.open(life.root, archive=life.archive, read_only=True) as store:
        seen = held_by(store) if store.businesses() else None
    found = life.look()
    assert found in wanted, f"found {brief(found)}, not one of {[brief(state) for state in wanted]}"
    assert seen is None or seen == found, f"a reader without the lock saw {brief(seen)}, not {brief(found)}"
    assert_sound(base)
    words: list[str] = []
    Life(base, generation, words.append, start).live()
    (after,) = states(found, words, generation)
    now = life.look()
    assert now == after, f"the next life left {brief(now)}, not {brief(after)}"
    assert_sound(base)
    life.end()
    if tidy:
        left = [path for path in base.rglob("*") if "partial" in path.name or path.name == "_restoring"]
        assert not [path for path in left if "lost" not in str(path)], left
    base.with_name(f"{base.name}.after").write_text(json.dumps(after))


def brief(model: Model) -> Model:
    """A model without its long values, to be read."""
    return {key: value if isinstance(value, list) else value[:9] for key, value in sorted(model.items())}


def assert_sound(base: Path) -> None:
    """Nothing is wrong with the archive."""
    findings = verify(open_objects(str(base / "archive"))).findings
    assert not findings, findings


def one_turn(base: Path, mode: str, number: int) -> SweepPoint:
    """One life, hurt at its call `number`, which has no name if it ended before."""
    victim = Victim(base, mode)
    call = _reached(victim, number, of_archiver=mode in OF_THE_ARCHIVER)
    if call is None:
        assert_unhurt(victim)
        return SweepPoint(number, None, "", "")
    turn = _named(number, call, victim, base)
    wrong: list[str | None] = []
    _hurt(call, mode, victim)
    if mode == "orphan":
        wanted = states({}, victim.told())
        wrong.append(apart(lambda: check(base, wanted, 1, tidy=False)))
        call.go()
    code = victim.finish()
    told = victim.told()
    wrong.append(ending(mode, code, told))
    wanted = states({}, told)
    if mode == "orphan" and not any(wrong):
        wanted = [json.loads(base.with_name(f"{base.name}.after").read_text())]
    wrong.append(apart(lambda: check(base, wanted, 2)))
    return turn._replace(wrong="\n".join(filter(None, wrong)) or None)


def listed(base: Path) -> Iterator[SweepPoint]:
    """The calls of a life that nobody hurts. Those of the archiver's process come twice, with either number."""
    victim = Victim(base, "list")
    of_archiver = 0
    for number, call in enumerate(victim.calls, 1):
        turn = _named(number, call, victim, base)
        yield turn
        if call.process != victim.program:
            of_archiver += 1
            yield turn._replace(number=of_archiver, alone=True)
        call.go()
    assert_unhurt(victim)


def assert_unhurt(victim: Victim) -> None:
    """A life that nobody hurt does all that it has to do."""
    code = victim.finish()
    assert code == 0, f"a life that nobody hurt ended with {code}: {victim.told()[-1]}"


def ending(mode: str, code: int, told: list[str]) -> str | None:
    """What is wrong with how a life ended that was hurt: only a killed process dies, any other says what has happened to it."""
    if code not in (0, REFUSED, -signal.SIGKILL):
        return f"ended with {code}: {told[-1]}"
    if mode.isupper() and any(word.endswith("again") for word in told):
        return "the archiver's process died of an error that it should have told"
    if code == REFUSED and not any(word in told[-1].lower() for word in WORDS.get(mode, ())):
        return f"not a word of what went wrong: {told[-1]}"
    return None


def _named(number: int, call: Call, victim: Victim, base: Path) -> SweepPoint:
    return SweepPoint(number, call.name, call.path.removeprefix(f"{base}/"), victim.stage())


def _reached(victim: Victim, number: int, *, of_archiver: bool) -> Call | None:
    """The call of that number, of the archiver's if so wanted, which waits; None if there is none."""
    counted = 0
    for call in victim.calls:
        counted += not of_archiver or call.process != victim.program
        if counted == number:
            return call
        call.go()
    return None


def _hurt(call: Call, mode: str, victim: Victim) -> None:
    if mode.isupper():
        call.fail(getattr(errno, mode))
        return
    if mode in ("archiver", "both"):
        call.kill()
    if mode != "archiver":
        victim.kill()
    if mode == "program":
        call.go()


def apart(work: Callable[[], None]) -> str | None:
    """Do it in a process of its own, so that no thread is left here. What it raised, as text."""
    read, write = os.pipe()

    def try_it() -> None:
        try:
            work()
        except BaseException:
            os.write(write, traceback.format_exc()[-4000:].encode())
            raise

    pid = fork(try_it)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return text or (f"the check ended with {code}" if code else None)


def main() -> None:
    """Sweep."""
    folder, mode, *numbers = sys.argv[1:]
    adopt_orphans()
    gc.freeze()
    answers = os.dup(1)
    os.dup2(2, 1)  # where kvwal's warnings go
    base = Path(folder) / "life"
    turns = listed(base) if mode == "list" else (one_turn(base, mode, int(number)) for number in numbers)
    for turn in turns:
        os.write(answers, (json.dumps(turn._asdict()) + "\n").encode())
        if turn.name is None:
            break
    gc.unfreeze()


if __name__ == "__main__":
    main()
