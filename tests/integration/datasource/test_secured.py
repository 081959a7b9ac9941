"""The data source on a cluster with TLS and a token: who knows both reads, writes and streams, and others hear why not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.node.test_tls import make_authority, needs_openssl
from tests.repository.source import ROOT
from tests.support.cluster.nodes import CLUSTER, needs_hazelcast, running
from tests.support.spark import environment

pytestmark = [needs_hazelcast, needs_openssl, pytest.mark.long]
TOKEN = "correct-horse-battery-staple"


def drive(location: str, folder: Path, **secrets: str) -> subprocess.CompletedProcess[str]:
    """A driver in a process of its own, with these variables."""
    words = [sys.executable, "-m", "tests.support.datasource.secured", location, CLUSTER, str(folder / "checkpoint")]
    return subprocess.run(
        words, env=environment(ROOT) | secrets, cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_driver_with_token_and_authority_uses_the_cluster_and_another_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    authority = make_authority(tmp_path / "own")
    with running(tmp_path / "root", config=f'token_file = "{tmp_path / "token"}"\n{authority.config}') as node:
        location = f"kvwal://{node.address}"
        known = drive(location, tmp_path, KVWAL_TOKEN=TOKEN, KVWAL_AUTHORITY=authority.certificate)
        assert known.returncode == 0, known.stderr[-3000:]
        rows = [["a", 1], ["b", 2]]
        assert json.loads(known.stdout.splitlines()[-1]) == {"batch": rows, "stream": rows}
        wrong = {"KVWAL_TOKEN": "another-token-of-the-same-kind", "KVWAL_AUTHORITY": authority.certificate}
        unknown = drive(location, tmp_path, **wrong)
        assert unknown.returncode == 1
        assert "ClusterUnreachable" in unknown.stderr
        for said in (known.stderr, known.stdout, unknown.stderr, unknown.stdout):
            assert TOKEN not in said
            assert "another-token" not in said
