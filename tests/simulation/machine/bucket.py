"""An object store as real ones are: strongly consistent, and behind a network that loses questions and answers.

The archive reaches it as it reaches any fsspec file system (`sim://bucket`), so the real retries, the real put-if-absent and
the real confirmation run.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import fsspec
from fsspec.spec import AbstractFileSystem

from tests.simulation.machine.loop import Dead, current_job, pause
from tests.simulation.machine.process import PROCESS, START_MS, Process

if TYPE_CHECKING:
    from tests.simulation.machine.disk import Machine
    from tests.simulation.world import World

URL = "sim://bucket"


class Stored(NamedTuple):
    """An object and when it was made, in seconds by the store's own clock."""

    data: bytes
    made: float


class Bucket:
    """The objects. `trouble` is the chance that a request goes wrong, `away` says that none is answered.

    `running` is that of the seed that is running; a library's own threads know nothing else of it.
    """

    running: ClassVar[Bucket | None] = None

    def __init__(self, world: World) -> None:
        self.world = world
        self.objects: dict[str, Stored] = {}
        self.trouble = 0.0
        self.was_troubled = False
        self.away = False
        self.etags = True
        self.deleted = 0
        self.cut_off: set[Machine] = set()
        """Machines from which nothing arrives any more, also of what is on its way."""
        self._chance = world.chance("bucket")

    def has_log_of(self, business: str) -> bool:
        """Whether a log of that business is registered."""
        return any(f"/{business}/" in key and key.endswith("/_log") for key in self.objects)

    def request(self, verb: str, key: str, action: Callable[[], Any]) -> Any:
        """Ask: the answer may not come, before or after it was done; it may come late."""
        process = PROCESS.get()
        if process is None or current_job() is None:
            return action()
        self.world.happened(verb, key)
        process.step()
        self._wait(process)
        self.was_troubled |= self.away
        goes_wrong = self.away or self._chance.random() < self.trouble
        self.was_troubled |= goes_wrong
        if goes_wrong and (self.away or self._chance.random() < 0.5):
            self.world.met("bucket: a question was lost")
            raise self._error()
        answer = action()
        self._wait(process)
        if goes_wrong:
            self.world.met(f"bucket: the answer to a {verb} was lost")
            raise self._error()
        return answer

    def _wait(self, process: Process) -> None:
        late = self.trouble and self._chance.random() < self.trouble
        if late:
            pause(self.world.loop, self._chance.choice([0.2, 2.0, 30.0]))
        else:
            self.world.give_way()
        process.check_alive()

    def _error(self) -> OSError:
        kind = self._chance.choice(["silent", "reset", "busy"])
        if kind == "busy":
            return OSError(errno.EREMOTEIO, "503 of the simulation")
        return TimeoutError("no answer") if kind == "silent" else ConnectionResetError(errno.ECONNRESET, "reset")

    def put(self, key: str, data: bytes, *, only_new: bool) -> None:
        if only_new and key in self.objects:
            raise FileExistsError(errno.EEXIST, "there is one", key)
        self.objects[key] = Stored(data, START_MS / 1000 + self.world.loop.now)

    def put_request(self, key: str, data: bytes, *, only_new: bool) -> None:
        """A put whose sender is killed while it is on its way may still arrive, later."""
        try:
            self.request("put", key, lambda: self.put(key, data, only_new=only_new))
        except Dead:
            if self._chance.random() < 0.5:
                machine, after = PROCESS.get().disk.machine, self._chance.choice([0.0, 0.5, 5.0])
                self.world.loop.call_later(after, self._arrive, machine, key, data, only_new)
            raise

    def _arrive(self, machine: Machine, key: str, data: bytes, only_new: bool) -> None:
        if machine not in self.cut_off and not (only_new and key in self.objects):
            self.world.met("bucket: a put arrived after its sender was dead")
            self.put(key, data, only_new=only_new)

    def remove(self, key: str) -> None:
        """As S3 does: one that is gone already is no error."""
        self.objects.pop(key, None)
        self.deleted += 1

    def find(self, key: str) -> Stored:
        if key not in self.objects:
            raise FileNotFoundError(errno.ENOENT, "no such object", key)
        return self.objects[key]

    def info(self, key: str) -> dict[str, Any]:
        data, made = self.find(key)
        digest = {"ETag": hashlib.md5(data, usedforsecurity=False).hexdigest()} if self.etags else {}
        return {"name": key, "size": len(data), "type": "file", "created": made, **digest}


class BucketFiles(AbstractFileSystem):  # type: ignore[misc]
    """The bucket of the world that is running, as fsspec shows one."""

    protocol = "sim"
    cachable = False

    @property
    def _bucket(self) -> Bucket:
        assert Bucket.running is not None, "no seed is running"
        return Bucket.running

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(path).removeprefix("sim://").strip("/")

    def find(self, path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        bucket = self._bucket
        folder = f"{path.strip('/')}/"
        return bucket.request(
            "list", path, lambda: {key: bucket.info(key) for key in sorted(bucket.objects) if key.startswith(folder)}
        )

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self._bucket.put_request(path, bytes(value), only_new=mode == "create")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        bucket = self._bucket
        if start is not None:  # a part is read by a thread of the library: no time passes there
            return bucket.find(path).data[start:end]
        return bucket.request("get", path, lambda: bucket.find(path).data)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        bucket = self._bucket
        return bucket.request("info", path, lambda: bucket.info(path))

    def get_file(self, rpath: str, lpath: str, **kwargs: Any) -> None:
        Path(lpath).write_bytes(self._bucket.request("get", rpath, lambda: self._bucket.find(rpath).data))

    def rm_file(self, path: str) -> None:
        self._bucket.request("delete", path, lambda: self._bucket.remove(path))


fsspec.register_implementation("sim", BucketFiles, clobber=True)
