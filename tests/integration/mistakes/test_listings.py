"""A listing that fails is an error: an archive that does not answer does not look empty."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal_archive.errors import ArchiveError
from kvwal_archive.objects import open_objects
from tests.support.archive import s3
from tests.support.archive.proxy import proxied
from tests.support.cli import kvwal as run


def test_an_archive_behind_http_that_does_not_answer_is_not_empty() -> None:
    with pytest.raises(ArchiveError, match="does not answer"):
        open_objects("http://127.0.0.1:1/archive").list("")


def test_a_folder_that_is_not_there_yet_is_empty() -> None:
    assert open_objects("memory://nothing-was-archived-here").list("") == []


@pytest.mark.parametrize("address", ["ftp://127.0.0.1:1/archive", "http://127.0.0.1:1/archive"])
def test_what_was_put_meanwhile_is_durable_and_the_archive_is_named(tmp_path: Path, address: str) -> None:
    ran = run("put", tmp_path / "data", "jobs", "job-1", "1", "--archive", address)
    assert (ran.code, f"not archived: {address} does not answer" in ran.err) == (3, True), ran
    with kvwal.open(tmp_path / "data", archive=None) as store:
        assert dict(store.map("jobs")) == {"job-1": 1}


def test_a_wrong_secret_is_asked_for_a_few_times_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says 403. It is asked with the keys at hand and with keys that are fetched anew, and no more."""
    server, asked = s3.server(), []
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a wrong one")
    with proxied(server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        proxy.choose = lambda method, path: asked.append(path)
        ran = run("put", tmp_path / "data", "jobs", "job-1", "1", "--archive", f"{s3.bucket(server)}/prefix")
    assert (ran.code, "refused access: a wrong key or secret" in ran.err, "durable" in ran.err) == (2, True, True), ran
    assert 0 < len(asked) < 10, asked
