"""A JVM with the glue in it: serialized bytes in hex, a line each, are answered by class, bytes and the way back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kvwal.node import jvm


class Word(NamedTuple):
    """What the glue makes of serialized bytes, and what it makes of that."""

    name: str
    data: bytes
    back: bytes


class Glue:
    """The process, asked one question at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def word(self, serialized: bytes) -> Word:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(serialized.hex() + "\n")
        self._process.stdin.flush()
        name, data, back = self._process.stdout.readline().rstrip("\n").split(" ")
        return Word(name, bytes.fromhex(data), bytes.fromhex(back))


@contextmanager
def glue() -> Iterator[Glue]:
    """A process that answers, gone afterwards."""
    command = [sys.executable, "-m", "tests.support.java.wire"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Glue(process)


def serve() -> None:
    """The process."""
    jvm.start("64m", None, ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
    words = jvm.java("kvwal.codec.ValueCodec")
    heap_data = jvm.java("com.hazelcast.internal.serialization.impl.HeapData")
    for line in sys.stdin:
        word = words.of(heap_data(bytes.fromhex(line)))
        data = bytes(memoryview(word.array()))[word.from_() : word.from_() + word.length()]
        back = bytes(memoryview(words.toData(word.name(), data).toByteArray()))
        print(word.name(), data.hex(), back.hex(), flush=True)


if __name__ == "__main__":
    serve()
