"""One look at an archive: what is known of it is bounded, also where several threads learn at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from kvwal_archive.objects import Known, Listed

PART = 1 << 10
ROOM = 100
THREADS = 8
PARTS = 4000


@pytest.fixture
def threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_take_turns_often")
def test_threads_that_learn_at_once_keep_as_much_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal_archive.objects.look.KNOWN_BYTES", ROOM * PART)
    known = Known(threading.Lock())

    def of(thread: int, part: int) -> Listed:
        return Listed(f"{thread}/{part}", PART, None, 0)

    def learn(thread: int) -> None:
        for part in range(PARTS):
            known.put(of(thread, part), 0, PART, bytes(PART))

    threads = [threading.Thread(target=learn, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [known.get(of(thread, part), 0, PART) for thread in range(THREADS) for part in range(PARTS)]
    assert sum(data is not None for data in kept) == ROOM


def test_an_answer_of_another_length_is_not_kept() -> None:
    """A page that a proxy gave in place of an object was told again for as long as the reader was open."""
    known, of = Known(threading.Lock()), Listed("one.parquet", 4, "etag", 0)
    known.put(of, 0, 4, b"<html>a sign-in page</html>")
    known.put(of, 1, 3, b"")
    assert (known.get(of, 0, 4), known.get(of, 1, 3)) == (None, None)
    known.put(of, 0, 4, b"PAR1")
    assert known.get(of, 0, 4) == b"PAR1"
