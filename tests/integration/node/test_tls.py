"""A cluster that speaks TLS: members and clients of one authority understand each other, and nobody else hears a word."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import kvwal
from kvwal.errors import ClusterUnreachable
from tests.support.cli import kvwal as run
from tests.support.cluster.nodes import CLUSTER, cluster, needs_hazelcast, running
from tests.support.member.stepping import SteppingClock, needs_compiler
from tests.support.ports import free_port

TOKEN = "correct-horse-battery-staple"
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl makes the certificates, and is not here"
)


class Authority(NamedTuple):
    """An authority, and a certificate of it for every node."""

    folder: Path

    @property
    def certificate(self) -> str:
        return str(self.folder / "authority.pem")

    @property
    def config(self) -> str:
        """For a node's file."""
        files = {name: str(self.folder / f"{name}.pem") for name in ("certificate", "key", "authority")}
        return "[tls]\n" + "".join(f'{name} = "{path}"\n' for name, path in files.items())


def make_authority(folder: Path) -> Authority:
    folder.mkdir()

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl(
        "req",
        "-x509",
        *KEY,
        "-keyout",
        "authority-key.pem",
        "-out",
        "authority.pem",
        "-subj",
        "/CN=authority",
        "-days",
        "2",
    )
    openssl("req", *KEY, "-keyout", "key.pem", "-out", "node.csr", "-subj", "/CN=node")
    signed = ("-CA", "authority.pem", "-CAkey", "authority-key.pem", "-CAcreateserial", "-days", "2")
    openssl("x509", "-req", "-in", "node.csr", *signed, "-out", "certificate.pem")
    return Authority(folder)


@needs_hazelcast
@needs_openssl
@pytest.mark.long
def test_two_members_and_their_clients_speak_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = make_authority(tmp_path / "own"), make_authority(tmp_path / "other")
    monkeypatch.setenv("KVWAL_TOKEN", TOKEN)
    with cluster(tmp_path, 2, config=own.config) as two:
        members = [node.address for node in two.nodes]
        with kvwal.connect(members, cluster=CLUSTER, authority=own.certificate) as store:
            jobs = store.map("jobs")
            large = {f"large-{number}": chr(97 + number) * 4_000_000 for number in range(4)}
            for key, value in large.items():
                jobs[key] = value
            with ThreadPoolExecutor(16) as threads:
                list(threads.map(lambda number: jobs.put(str(number), number), range(2_000)))
            two.nodes[1].restart()
            assert {key: jobs[key] for key in large} == large
            assert len(jobs) == 2_004
        for heard in (b"CP2", b"HZC", b"KVT" + bytes(32)):
            with socket.create_connection((two.nodes[0].host, two.nodes[0].port)) as plain:
                plain.sendall(heard + bytes(64))
                assert b"HZC" not in plain.recv(4096)
        for authority in (None, other.certificate):
            with pytest.raises(ClusterUnreachable):
                kvwal.connect(members, cluster=CLUSTER, authority=authority)


DAYS_S = 86_400.0


@needs_hazelcast
@needs_openssl
@needs_compiler
@pytest.mark.long
def test_a_certificate_that_expires_is_told_by_the_node_and_to_its_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts for two days. The clocks of the node and of the client's command are moved past that."""
    own = make_authority(tmp_path / "own")
    monkeypatch.setenv("KVWAL_TOKEN", TOKEN)
    clock = SteppingClock(tmp_path, "clock")
    days = f'kvwal_certificate_days_left{{file="{own.folder}/certificate.pem"}}'
    with running(tmp_path / "root", config=own.config, prefix=clock.prefix) as node:
        monkeypatch.setenv("KVWAL_AUTHORITY", own.certificate)
        command = str(Path(sys.executable).parent / "kvwal")
        put = [*clock.prefix, command, "put", f"kvwal://{node.address}", "jobs", "job-1", "1", "--cluster", CLUSTER]
        subprocess.run(put, check=True)
        status, said = node.get("/readyz")
        assert status == 200
        assert "certificate.pem expires" in json.loads(said)["certificate"]
        assert 1 < node.figures()[days] < 2
        clock.step(3 * DAYS_S)
        status, said = node.get("/readyz")
        assert status == 503
        assert "has expired, and nobody new can connect" in json.loads(said)["certificate"]
        assert node.figures()[days] < 0
        refused = subprocess.run(put, check=False, capture_output=True, text=True)
        assert refused.returncode == 3
        assert f"the certificate of {node.address} is refused: certificate has expired" in refused.stderr
        node.kill()
        node.spawn()
        assert node.ended() == 2
        assert "has expired at" in node.lines()[-1]["event"]
        clock.step(-3 * DAYS_S)
        node.spawn()
        assert node.ended() == 3, "the clock catches up"
        assert "counts from" in node.lines()[-1]["event"]


@needs_openssl
def test_tls_without_a_token_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(make_authority(tmp_path / "own").config)
    ran = run(
        "node", tmp_path / "root", "--node", "node-1", "--address", f"127.0.0.1:{free_port()}", "--config", config
    )
    assert ran.code == 2
    assert "[tls] without a token" in ran.err


@needs_hazelcast
def test_files_that_are_no_certificate_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVWAL_TOKEN", TOKEN)
    config = tmp_path / "node.toml"
    (tmp_path / "empty").write_text("")
    config.write_text(
        "[tls]\n" + "".join(f'{name} = "{tmp_path / "empty"}"\n' for name in ("certificate", "key", "authority"))
    )
    ran = run(
        "node", tmp_path / "root", "--node", "node-1", "--address", f"127.0.0.1:{free_port()}", "--config", config
    )
    assert ran.code == 2
    assert "[tls]" in ran.err
    assert "PEM" in ran.err
