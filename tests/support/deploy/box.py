"""A container without an engine: the machine's files under a layer of its own, its own network, names and mounts as told.

Made of what the kernel has: an overlay for the files, namespaces for network and mounts. What a service does there (the
paths it writes, the ports it takes, the user it is) is what it would do in a container, and nothing of it stays behind.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.repository.source import ROOT

PROGRAMS = ("unshare", "nsenter", "setpriv", "prlimit", "mount", "chroot", "ip")


def missing() -> str | None:
    """Why there can be no box here, or None."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"a box needs {', '.join(lacking)}"
    if os.geteuid() != 0:
        return "only root may make a box"
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return None if tried.returncode == 0 else f"this machine allows no namespaces: {tried.stderr.decode().strip()}"


class Mounted(NamedTuple):
    """A folder or file of the box seen at another place."""

    source: str
    target: str
    read_only: bool = False


class Way(NamedTuple):
    """How a command runs in a box."""

    host: str
    environment: Mapping[str, str] = {}
    user: str | None = None
    mounts: Sequence[Mounted] = ()
    scratch: Sequence[str] = ()
    read_only: bool = False
    files: int | None = None


class Box:
    """Lives until `close`. `layer` keeps what is written, so that another box can go on from there."""

    def __init__(self, layer: Path, *, hosts: Mapping[str, str] | None = None) -> None:
        """With `hosts` the box has a network of its own, on which those names have those addresses; without, the machine's."""
        self.root = layer / "root"
        for name in ("upper", "work", "root"):
            (layer / name).mkdir(parents=True, exist_ok=True)
        own = ["--net"] if hosts is not None else []
        self._holder = subprocess.Popen(
            ["unshare", "--mount", *own, "sh", "-euc", self._script(layer, hosts)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "made\n":
            raise RuntimeError(f"the box was not made: its set-up ended with {self._holder.wait()}")

    def _script(self, layer: Path, hosts: Mapping[str, str] | None) -> str:
        root = shlex.quote(str(self.root))
        lines = [
            f"mount -t overlay overlay -o lowerdir=/,upperdir={layer}/upper,workdir={layer}/work {root}",
            *(f"mount --rbind {place} {root}{place}" for place in ("/proc", "/sys", "/dev")),
            f"[ -e {root}{ROOT} ] || {{ mkdir -p {root}{ROOT} && mount --bind {ROOT} {root}{ROOT}; }}",
            # The interpreter must be there for every user.
            *(f"chmod o+x {root}{folder}" for folder in Path(sys.base_prefix).parents),
        ]
        if hosts is not None:
            lines += ["ip link set lo up", f": > {root}/etc/hosts"]
            for name, address in {"localhost": "127.0.0.1", **hosts}.items():
                lines += [f"echo {address} {name} >> {root}/etc/hosts"]
            lines += [f"ip address add {address}/32 dev lo" for address in hosts.values()]
        # It ends with the test run, however that ends: nobody holds the other end of its input any more.
        return "\n".join([*lines, f"exec chroot {root} sh -c 'echo made; exec cat'"])

    def command(self, words: Sequence[str], way: Way) -> list[str]:
        """What runs `words` in the box, from outside."""
        inner = [f"echo {way.host} > /proc/sys/kernel/hostname"]
        for mount in way.mounts:
            inner += self._mount(mount)
        for place in way.scratch:
            inner += _scratch(*place.partition(":")[::2])
        inner += ["mount -o remount,bind,ro /"] if way.read_only else []
        inner.append(f"exec {shlex.join([*_limits(way), *words])}")
        holder = self._holder.pid
        return [
            "nsenter", f"--target={holder}", "--mount", "--net", "--root", f"--wd=/proc/{holder}/cwd",
            "unshare", "--mount", "--uts", "sh", "-euc", "\n".join(inner),
        ]  # fmt: skip

    def _mount(self, mount: Mounted) -> list[str]:
        target = mount.target
        if self.root_of(mount.source).is_dir():
            place = f"mkdir -p {target}"
        else:
            place = f"mkdir -p {Path(target).parent} && touch {target}"
        locked = [f"mount -o remount,bind,ro {target}"] if mount.read_only else []
        return [place, f"mount --bind {mount.source} {target}", *locked]

    def root_of(self, path: str) -> Path:
        """A path of the box, as it can be read from outside: through the process that holds it."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    def spawn(self, words: Sequence[str], way: Way, log: Path) -> subprocess.Popen[bytes]:
        """Start a command; what it says goes to `log`."""
        with log.open("ab") as file:
            return subprocess.Popen(
                self.command(words, way), env=dict(way.environment), stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    def run(self, words: Sequence[str], way: Way, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.command(words, way), env=dict(way.environment), input=text, capture_output=True, text=True, check=False
        )

    def close(self) -> None:
        """The box is gone; its layer stays."""
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()


def _scratch(place: str, options: str) -> list[str]:
    """Commands that mount an empty folder as an engine does: nothing can be run from it, unless its options say so.

    The box runs the programs of the repository. A repository below the folder is seen in it all the same.
    """
    mounted = f"mount -t tmpfs -o {','.join(filter(None, ['noexec,nosuid,nodev', options]))} none {place}"
    if not ROOT.is_relative_to(place):
        return [mounted]
    return [
        f"mount --bind {ROOT} /mnt", mounted, f"mkdir -p {ROOT}", f"mount --bind /mnt {ROOT}", "umount /mnt",
    ]  # fmt: skip


def _limits(way: Way) -> list[str]:
    """The command that takes from another what `way` does not allow it: files, its rights, its user."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = ["prlimit", f"--nofile={min(way.files, most)}"] if way.files else []
    if way.user is not None:
        user, _, group = way.user.partition(":")
        limits += [
            "setpriv",
            f"--reuid={user}",
            f"--regid={group}",
            "--clear-groups",
            "--bounding-set=-all",
            "--no-new-privs",
        ]
    return limits
