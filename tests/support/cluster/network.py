"""A network of namespaces: each node has one of its own, all hang on one bridge, and so do their clients.

Links are cut by routes that lead nowhere, one direction at a time, so that a client still reaches nodes that do not reach each
other. All of it ends with the test run, however that ends: what holds a namespace waits for its input to end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.cluster.nodes import Cluster, Node
from tests.support.polling import until

PROGRAMS = ("unshare", "nsenter", "ip")
_SUBNETS = 256


def missing() -> str | None:
    """Why there can be no such network here, or None."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"namespaces of their own need {', '.join(lacking)}"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    links = "ip link add name one type bridge && ip link add name two type veth peer name three"
    script = f"{links} && ip route add blackhole 192.0.2.1"
    tried = subprocess.run(["unshare", "--net", "sh", "-ec", script], capture_output=True, check=False)
    return None if tried.returncode == 0 else f"this machine allows no networks: {tried.stderr.decode().strip()}"


_MISSING = missing()
needs_networks = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))


class Namespace:
    """A network of its own, until `close`."""

    def __init__(self) -> None:
        script = "ip link set lo up && echo made && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-ec", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "made\n"

    @property
    def pid(self) -> int:
        return self._holder.pid

    def inside(self, *words: str) -> list[str]:
        """The command that runs `words` there."""
        return ["nsenter", f"--target={self.pid}", "--net", *words]

    def ip(self, words: str) -> None:
        """`ip`, there."""
        subprocess.run(self.inside("ip", *words.split()), check=True)

    def tc(self, words: str) -> None:
        """`tc`, there."""
        subprocess.run(self.inside("tc", *words.split()), check=True, capture_output=True)

    def close(self) -> None:
        """Its interfaces go with it."""
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()


def _wire(number: int) -> str:
    return f"kvwal-{number}"


class Network:
    """Namespaces 1 to `count`, of which each reaches every other one, until it is told otherwise."""

    def __init__(self, count: int) -> None:
        self._shaped: set[int] = set()
        self._switch = Namespace()
        number = self._take_number()
        self.subnet = f"10.213.{number}"
        self._wire = _wire(number)
        self._switch.ip("link add name bridge type bridge")
        self._switch.ip("link set dev bridge up")
        self.places = [Namespace() for _ in range(count)]
        for number, place in enumerate(self.places, 1):
            self._plug(f"port{number}", f"eth0 netns {place.pid}")
            place.ip(f"address add {self.subnet}.{number}/24 dev eth0")
            place.ip("link set eth0 up")
        self._switch.ip("link set dev outside master bridge up")
        subprocess.run(["ip", "address", "add", f"{self.subnet}.254/24", "dev", self._wire], check=True)
        subprocess.run(["ip", "link", "set", self._wire, "up"], check=True)

    def _take_number(self) -> int:
        """The number of a subnet that no other network of this machine has: the kernel gives the name of its wire once.

        Test runs, and the processes of one, make networks side by side. A wire may outlive its network for a moment.
        """
        for first in range(_SUBNETS):
            number = (os.getpid() + first) % _SUBNETS
            words = f"ip link add name {_wire(number)} type veth peer name outside netns {self._switch.pid}"
            made = subprocess.run(words.split(), capture_output=True, text=True, check=False)
            if made.returncode == 0:
                return number
            assert "File exists" in made.stderr, made.stderr
        raise AssertionError(f"all {_SUBNETS} networks are in use; `ip link` lists their wires")

    def _plug(self, port: str, peer: str) -> None:
        self._switch.ip(f"link add name {port} type veth peer name {peer}")
        self._switch.ip(f"link set dev {port} master bridge up")

    def cut(self, number: int, others: Sequence[int], *, one_way: bool = False, silent: bool = False) -> None:
        """Nothing that `number` sends reaches the others any more; nor the other way round, unless `one_way`. The sender is
        told so by the kernel, unless `silent`."""
        self._each(
            "neigh replace {} lladdr 02:00:00:00:00:00 dev eth0" if silent else "route add blackhole {}",
            number,
            others,
            one_way=one_way,
        )

    def heal(self, number: int, others: Sequence[int], *, one_way: bool = False, silent: bool = False) -> None:
        """What `cut` did is undone."""
        self._each(
            "neigh delete {} dev eth0" if silent else "route delete blackhole {}", number, others, one_way=one_way
        )

    def _each(self, words: str, number: int, others: Sequence[int], *, one_way: bool) -> None:
        for other in others:
            self.places[number - 1].ip(words.format(f"{self.subnet}.{other}"))
            if not one_way:
                self.places[other - 1].ip(words.format(f"{self.subnet}.{number}"))

    def mute(self, number: int, other: int) -> None:
        """What `number` says does not reach `other`, and what it acknowledges does: so it goes on hearing, and is not heard."""
        place = self.places[number - 1]
        if number not in self._shaped:
            place.tc("qdisc add dev eth0 root handle 1: htb default 1")
            place.tc("class add dev eth0 parent 1: classid 1:1 htb rate 1gbit quantum 60000")
            place.tc("class add dev eth0 parent 1: classid 1:2 htb rate 1gbit quantum 60000")
            place.tc("qdisc add dev eth0 parent 1:2 handle 2: blackhole")
            self._shaped.add(number)
        to = f"u32 match ip dst {self.subnet}.{other}/32"
        # A packet below 64 bytes carries no data. Its length stands in the third and fourth byte.
        place.tc(f"filter add dev eth0 parent 1: protocol ip prio {2 * other} {to} match u16 0 0xffc0 at 2 flowid 1:1")
        place.tc(f"filter add dev eth0 parent 1: protocol ip prio {2 * other + 1} {to} flowid 1:2")

    def unmute(self, number: int, other: int) -> None:
        """What `mute` did is undone."""
        for priority in (2 * other, 2 * other + 1):
            self.places[number - 1].tc(f"filter delete dev eth0 parent 1: protocol ip prio {priority}")

    def drop(self, number: int, other: int) -> bool:
        """Break what connects `number` to `other`, so that only `number` sees it if nothing it sends gets there; False if the
        kernel does not do that."""
        broken = subprocess.run(self.places[number - 1].inside(*self._kill(other)), capture_output=True, check=False)
        return bool(broken.stdout)

    def lose(self, number: int, other: int, count: int) -> bool:
        """Break what connects them together with at least so many bytes that `number` has for `other` and that did not come;
        both reach each other again at once. False if the kernel does not do that."""
        self.cut(number, [other], one_way=True)
        until(lambda: self._unsent(number, other) >= count or None)
        # At once: else what is on its way is sent again in between.
        script = f'ip route delete blackhole {self.subnet}.{other} && exec "$@"'
        words = self.places[number - 1].inside("sh", "-c", script, "sh", *self._kill(other))
        return bool(subprocess.run(words, capture_output=True, check=True).stdout)

    def _kill(self, other: int) -> list[str]:
        return ["ss", "--kill", *self._connections(other)]

    def _connections(self, other: int) -> list[str]:
        return ["--tcp", "--no-header", "state", "established", "dst", f"{self.subnet}.{other}"]

    def _unsent(self, number: int, other: int) -> int:
        words = self.places[number - 1].inside("ss", *self._connections(other))
        found = subprocess.run(words, capture_output=True, text=True, check=True)
        return sum(int(line.split()[1]) for line in found.stdout.splitlines())

    def unplug(self, number: int) -> None:
        """Nothing reaches `number`, and nothing says so: clients do not reach it either."""
        self._switch.ip(f"link set dev port{number} down")

    def plug(self, number: int) -> None:
        """What `unplug` did is undone."""
        self._switch.ip(f"link set dev port{number} up")

    def slow(self, number: int, rate: str) -> None:
        """What `number` sends goes no faster than that."""
        words = f"tc qdisc replace dev eth0 root tbf rate {rate} burst 16kbit latency 500ms".split()
        subprocess.run(self.places[number - 1].inside(*words), check=True)

    def quicken(self, number: int) -> None:
        """What `slow` did is undone."""
        words = ["tc", "qdisc", "delete", "dev", "eth0", "root"]
        subprocess.run(self.places[number - 1].inside(*words), check=True)

    def close(self) -> None:
        """Everything is gone, the wire to here included."""
        for place in [*self.places, self._switch]:
            place.close()
        subprocess.run(["ip", "link", "delete", self._wire], capture_output=True, check=False)


@contextmanager
def networked(folder: Path, count: int, *, config: str = "") -> Iterator[tuple[Cluster, Network]]:
    """Nodes that serve, each in a namespace of its own; they and their network are gone afterwards."""
    with ExitStack() as stack:
        network = Network(count)
        stack.callback(network.close)
        made = Cluster(folder, 0, config=config)
        for number, place in enumerate(network.places, 1):
            node = Node(folder / f"root-{number}", f"node-{number}", config=config, host=f"{network.subnet}.{number}")
            node.prefix = place.inside()
            stack.callback(lambda node=node: node.kill() if node.process is not None else None)
            made.nodes.append(node)
        made.tell()
        made.start()
        yield made, network
