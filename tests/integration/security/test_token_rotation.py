"""The token of a cluster is changed while the cluster runs: nobody is cut off, and the old token lets nobody in afterwards."""

from __future__ import annotations

import hmac
import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hazelcast.client import HazelcastClient
from hazelcast.security import BasicTokenProvider

import kvwal
from kvwal.errors import ClusterUnreachable
from tests.support.cluster.consistency import Clients, checked
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast, running
from tests.support.cluster.writers import Writers
from tests.support.polling import until

OLD, NEW = "the-token-of-yesterday", "the-token-of-today"
SIZE = 32
pytestmark = [needs_hazelcast, pytest.mark.long]


def put(file: Path, *tokens: str) -> None:
    """Replace a token file as a whole, as an editor or a tool for configuration does."""
    new = file.with_suffix(".new")
    new.write_text("".join(f"{token}\n" for token in tokens))
    new.rename(file)


def accepts(node: Node, count: int) -> None:
    """Wait until the node accepts this number of tokens from its file."""

    def looked() -> bool | None:
        figures = node.figures()
        return [value for name, value in figures.items() if name.startswith("kvwal_accepted_tokens")] == [count] or None

    until(looked)


def shown(node: Node, token: str) -> None:
    """Wait until the node proves this token to a member that names none, as one of an earlier version."""
    until(lambda: answers_with(node, token, bytes(SIZE)) or None)


def answers_with(node: Node, token: str, nonce: bytes) -> bool:
    """Whether the node proves this token to a member that connects with this nonce."""
    with socket.create_connection((node.host, node.port)) as connection:
        connection.sendall(b"KVT" + nonce)
        with connection.makefile("rb") as answer:
            heard = answer.read(2 * SIZE)
    assert len(heard) == 2 * SIZE
    proof = hmac.digest(token.encode(), b"kvwal member that accepts" + nonce + heard[:SIZE], "sha256")
    return hmac.compare_digest(proof, heard[SIZE:])


def named_nonce(token: str) -> bytes:
    """The nonce of a member that shows this token."""
    half = bytes(range(SIZE // 2))
    return half + hmac.digest(token.encode(), b"kvwal nonce" + half, "sha256")[: SIZE // 2]


def is_let_in(node: Node, token: str) -> bool:
    """Whether a client with this token is let in. Its refusal names the token as a cause, and does not show it."""
    try:
        kvwal.connect(node.address, cluster=CLUSTER, token=token).close()
    except ClusterUnreachable as error:
        refused = str(error)
    else:
        return True
    assert "wants another token" in refused
    assert token not in refused
    return False


def test_a_node_takes_new_tokens_and_keeps_those_that_are_connected(tmp_path: Path) -> None:
    file = tmp_path / "token"
    put(file, OLD)
    with (
        running(tmp_path / "root", config=f'token_file = "{file}"\n') as node,
        kvwal.connect(node.address, cluster=CLUSTER, token=OLD) as connected,
    ):
        jobs = connected.map("jobs")
        jobs["a"] = 1
        assert not is_let_in(node, NEW)
        put(file, OLD, NEW)
        accepts(node, 2)
        assert is_let_in(node, OLD)
        assert is_let_in(node, NEW)
        assert answers_with(node, OLD, bytes(SIZE))
        assert answers_with(node, OLD, named_nonce(OLD))
        assert answers_with(node, NEW, named_nonce(NEW))
        put(file, NEW)
        accepts(node, 1)
        assert is_let_in(node, NEW)
        assert not is_let_in(node, OLD)
        assert answers_with(node, NEW, named_nonce(OLD))
        jobs["b"] = 2
        assert dict(jobs) == {"a": 1, "b": 2}
        assert not [token for token in (OLD, NEW) if token in node.log.read_text()]


def test_a_file_that_cannot_be_used_leaves_the_tokens_and_operators_are_told(tmp_path: Path) -> None:
    file = tmp_path / "token"
    put(file, OLD)
    failing = f'kvwal_token_file_failing{{file="{file}"}}'
    with running(tmp_path / "root", config=f'token_file = "{file}"\n') as node:
        put(file, OLD, NEW, OLD)
        assert "holds 3 tokens, and may hold two" in node.told('"token"')
        assert node.figures()[failing] == 1
        assert node.get("/readyz")[0] == 200
        assert is_let_in(node, OLD)
        assert not is_let_in(node, NEW)
        file.unlink()
        node.told("cannot be read")
        put(file, OLD)
        until(lambda: "token" not in json.loads(node.get("/readyz")[1]) or None)
        assert node.figures()[failing] == 0
        said = [line["level"] for line in node.lines() if "a token file" in line["event"]]
        assert said == ["warning", "warning", "info"]


def test_a_client_that_connects_again_by_itself_reads_its_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, clients = tmp_path / "token", tmp_path / "token-clients"
    put(file, OLD)
    put(clients, OLD)
    monkeypatch.setenv("KVWAL_TOKEN_FILE", str(clients))
    with (
        running(tmp_path / "root", config=f'token_file = "{file}"\n') as node,
        kvwal.connect(node.address, cluster=CLUSTER) as connected,
    ):
        jobs = connected.map("jobs")
        jobs["a"] = 1
        put(file, NEW)
        put(clients, NEW)
        node.restart()
        jobs["b"] = 2
        clients.unlink()
        node.restart()
        jobs["c"] = 3
        assert dict(jobs) == {"a": 1, "b": 2, "c": 3}


class Rotation:
    """Three members with a token file each, and the token file of the clients."""

    def __init__(self, folder: Path, members: Cluster, load: Clients, writers: Writers) -> None:
        self.folder = folder
        self.members = members
        self.load = load
        self.writers = writers

    def give(self, node: Node, *tokens: str) -> None:
        put(self.folder / f"token-{node.name}", *tokens)
        accepts(node, len(tokens))
        shown(node, tokens[0])

    def restart(self, node: Node) -> None:
        """Kill and start a member: it joins the others again, and the clients reach it."""
        node.restart()
        for each in self.members.nodes:
            until(lambda each=each: each.figures().get("kvwal_cluster_members") == 3 or None)
            until(lambda each=each: "adopting" not in each.ready() or None)
        self.wait()

    def wait(self) -> None:
        self.writers.wait(100)
        self.load.wait(50)


@contextmanager
def rotation(folder: Path, members: Cluster) -> Iterator[Rotation]:
    """Clients that write and read meanwhile; afterwards what they saw is judged."""
    addresses = [node.address for node in members.nodes]
    client = HazelcastClient(
        cluster_name=CLUSTER, cluster_members=addresses, redo_operation=True, token_provider=BasicTokenProvider(OLD)
    )
    with checked(kvwal.connect(addresses, cluster=CLUSTER), "rotation") as load:
        writers = Writers(client, "load")
        try:
            writers.wait(500)
            yield Rotation(folder, members, load, writers)
        finally:
            writers.end()
            client.shutdown()
    with kvwal.connect(addresses, cluster=CLUSTER) as store:
        wrong = writers.wrong(dict(store.map("load").items()))
    print(f"{writers.last:,} changes, refused or unknown: {dict(Counter(writers.errors))}, {dict(load.told)}")
    assert not wrong


def test_three_members_under_load_are_given_a_new_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = tmp_path / "token-clients"
    for name in ("node-1", "node-2", "node-3", "clients"):
        put(tmp_path / f"token-{name}", OLD)
    monkeypatch.setenv("KVWAL_TOKEN_FILE", str(clients))
    with cluster(tmp_path, 3, config=f'token_file = "{tmp_path}/token-{{node}}"\n') as members:
        first, second, third = members.nodes
        with rotation(tmp_path, members) as running:
            running.give(first, OLD, NEW)
            running.restart(second)
            running.give(second, OLD, NEW)
            running.give(third, OLD, NEW)
            put(clients, NEW)
            running.wait()
            running.give(second, NEW)
            running.restart(second)
            running.restart(first)
            running.give(first, NEW)
            running.give(third, NEW)
            running.wait()
        for node in members.nodes:
            assert node.ready()["ready"]
            assert not is_let_in(node, OLD)
            assert is_let_in(node, NEW)
            assert not [token for token in (OLD, NEW) if token in node.log.read_text()]
            assert "did not prove" not in node.log.read_text()
