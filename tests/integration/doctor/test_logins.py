"""What a client says of a cluster that does not let it in: a refusal is one, a slow answer is slow, a closed door is closed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kvwal
from tests.support.cli import kvwal as run
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.ports import closing, silent

TOKEN = "correct-horse-battery-staple"
OTHER = "another-token-of-the-same-kind"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that wants a token."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(TOKEN + "\n")
    with running(folder / "root", config=f'token_file = "{folder / "token"}"\n') as node:
        yield node


@contextmanager
def stopped(node: Node) -> Iterator[None]:
    """While it stands still: the machine accepts connections for it."""
    os.kill(node.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.pid, signal.SIGCONT)


def found(*typed: object) -> tuple[int, list[dict[str, str]]]:
    ran = run("doctor", *typed, "--json")
    return ran.code, [json.loads(line) for line in ran.out.splitlines()]


@pytest.mark.long
@needs_hazelcast
def test_only_a_refusal_is_called_one(guarded: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    at = f"kvwal://{guarded.address}"
    monkeypatch.setenv("KVWAL_TOKEN", OTHER)
    for names in (["--cluster", CLUSTER], ["--cluster", "other"]):
        ran = run("scan", at, "jobs", *names)
        assert (ran.code, ran.out) == (2, "")
        assert (
            f"{guarded.address} refuses this client: it is of another cluster than {names[1]}, or it wants" in ran.err
        )
        code, told = found(at, *names)
        assert (code, "refuses this client" in told[-1]["found"]) == (1, True)
        assert "KVWAL_TOKEN_FILE" in told[-1]["what to do"]
    with pytest.raises(kvwal.ClusterRefused):
        kvwal.connect(guarded.address, cluster=CLUSTER)
    monkeypatch.setenv("KVWAL_TOKEN", TOKEN)
    with stopped(guarded):
        code, told = found(at, "--cluster", CLUSTER)
        assert (code, "token" in told[-1]["found"]) == (1, False)
        assert "gave no answer within 5 s: it is slow or stands still" in told[-1]["found"]
        assert "load of the nodes" in told[-1]["what to do"]
        assert run("scan", at, "jobs", "--cluster", CLUSTER).code == 3
    assert found(at, "--cluster", CLUSTER)[0] == 0


@pytest.mark.long
@needs_hazelcast
def test_one_address_that_is_silent_keeps_nobody_from_the_others(
    guarded: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVWAL_TOKEN", TOKEN)
    with silent() as address:
        for _ in range(4):  # the client takes the addresses in an order of its own
            with kvwal.connect([address, guarded.address], cluster=CLUSTER) as store:
                assert [member.node for member in store.members()] == ["node-1"]


@pytest.mark.long
def test_a_server_that_closes_its_door_is_no_slow_one() -> None:
    with closing() as address:
        ran = run("scan", f"kvwal://{address}", "jobs")
    assert (ran.code, ran.out) == (3, "")
    assert f"{address} closes the connection without an answer: it speaks TLS, or it is no node of kvwal." in ran.err


@pytest.mark.long
def test_a_silent_server_is_no_refusal(tmp_path: Path) -> None:
    with silent() as address:
        code, told = found(f"kvwal://{address}")
    assert (code, [one["level"] for one in told]) == (1, ["ok", "problem"])
    assert "gave no answer within 5 s" in told[-1]["found"]
