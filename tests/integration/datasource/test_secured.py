"""The data source on a cluster with TLS and a token: who knows both reads, writes and streams, and others hear why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.node.test_tls import make_authority, needs_openssl
from tests.support.cluster.nodes import CLUSTER, needs_hazelcast, running
from tests.support.datasource.drivers import drive

pytestmark = [needs_hazelcast, needs_openssl, pytest.mark.long]
TOKEN = "correct-horse-battery-staple"


def test_a_driver_with_token_and_authority_uses_the_cluster_and_another_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    authority = make_authority(tmp_path / "own")
    with running(tmp_path / "root", config=f'token_file = "{tmp_path / "token"}"\n{authority.config}') as node:
        arguments = (f"kvwal://{node.address}", CLUSTER, tmp_path / "checkpoint")
        known = drive("secured", tmp_path, *arguments, KVWAL_TOKEN=TOKEN, KVWAL_AUTHORITY=authority.certificate)
        assert known.returncode == 0, known.stderr[-3000:]
        rows = [["a", 1], ["b", 2]]
        assert json.loads(known.stdout.splitlines()[-1]) == {"batch": rows, "stream": rows}
        wrong = {"KVWAL_TOKEN": "another-token-of-the-same-kind", "KVWAL_AUTHORITY": authority.certificate}
        unknown = drive("secured", tmp_path, *arguments, **wrong)
        assert unknown.returncode == 1
        assert "ClusterRefused" in unknown.stderr
        for said in (known.stderr, known.stdout, unknown.stderr, unknown.stdout):
            assert TOKEN not in said
            assert "another-token" not in said
