"""Machines whose clocks step: a library in C that shifts the wall clock of one process, Python's and Java's, while it runs.

The clock port is not enough where Hazelcast reads the time itself.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t none;
static volatile int64_t *ahead_ms = &none;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = dlsym(RTLD_NEXT, "clock_gettime");
    const char *name = getenv("KVWAL_TEST_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *page = mmap(0, sizeof none, PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) ahead_ms = page;
        close(file);
    }
}

int clock_gettime(clockid_t id, struct timespec *time) {
    if (!real) begin();
    int code = real(id, time);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t ns = time->tv_nsec + *ahead_ms % 1000 * 1000000;
        time->tv_sec += *ahead_ms / 1000 + (ns < 0 ? -1 : ns / 1000000000);
        time->tv_nsec = (ns + 1000000000) % 1000000000;
    }
    return code;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    value->tv_sec = time.tv_sec;
    value->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (place) *place = time.tv_sec;
    return time.tv_sec;
}
"""
"""Every call by which glibc tells the wall clock. The monotonic clock is left alone, as it is when a real clock steps."""

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler for the clock that steps"
)


class SteppingClock:
    """The clock of a machine. A program that `prefix` begins reads it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._ahead = folder / f"{name}.clock"
        self.step(0)
        library = folder / "clock.so"
        if not library.exists():
            build = ["cc", "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(library), "-ldl"]
            subprocess.run(build, input=SOURCE, text=True, check=True)
        self.prefix = ["env", f"LD_PRELOAD={library}", f"KVWAL_TEST_CLOCK={self._ahead}"]

    def step(self, ahead_seconds: float) -> None:
        """From now on the clock is so far ahead of the true time."""
        with self._ahead.open("r+b" if self._ahead.exists() else "wb") as file:
            file.write(struct.pack("q", int(ahead_seconds * 1000)))
