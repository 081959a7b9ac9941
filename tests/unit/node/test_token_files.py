"""Token files: one token or two, and what counts while a file changes, is gone, or holds no tokens."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from kvwal.cluster.token import TokenSource, find_token, read_token
from kvwal.errors import ConfigError
from kvwal.node.health.token_watch import TokenFile, TokenWatch
from kvwal.ports.tasks import ThreadWorkers

OLD, NEW, THIRD = "the-token-of-yesterday", "the-token-of-today", "the-token-of-tomorrow"
FAILING = "a token file cannot be used; its earlier tokens count"


def accepted(source: TokenSource) -> list[str]:
    return [token.reveal() for token in source.tokens]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (OLD, [OLD]),
        (f"\n  {OLD}\t\n\n", [OLD]),
        (f"{OLD}\n{NEW}\n", [OLD, NEW]),
        (f"\r\n{NEW} \r\n \r\n {OLD}\r\n", [NEW, OLD]),
    ],
)
def test_a_file_holds_one_token_or_two_and_the_first_is_shown(tmp_path: Path, text: str, tokens: list[str]) -> None:
    path = tmp_path / "token"
    path.write_bytes(text.encode())
    source = read_token(str(path))
    assert accepted(source) == tokens
    assert source.shown.reveal() == tokens[0]
    assert not [token for token in tokens if token in repr(source)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{OLD}\n{NEW}\n{THIRD}\n", "holds 3 tokens, and may hold two: one a line"),
        (f"{OLD}\nshort\n", "the second token of .* is no token: it needs 16 to 256"),
        (f"with a blank in it\n{OLD}\n", "the first token of .* is no token: it needs 16 to 256"),
        ("\n \n", "is no token: it needs 16 to 256"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_and_not_shown(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as refused:
        find_token(str(path))
    assert not [line for line in text.split("\n") if line.strip() and line in str(refused.value)]


def test_a_file_is_read_again_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(OLD)
    monkeypatch.chdir(tmp_path)
    source = read_token("token")
    monkeypatch.chdir("/")
    assert not source.refresh()
    (tmp_path / "token").write_text(f"{OLD}\n{NEW}\n")
    assert source.refresh()
    assert accepted(source) == [OLD, NEW]
    (tmp_path / "token").write_text(f"{NEW}\n{OLD}")
    assert source.refresh(), "another token is shown"
    (tmp_path / "token").write_text(f"\n{NEW}\n\n{OLD}\n")
    assert not source.refresh()


def test_a_secret_of_kubernetes_changes_by_a_link_that_is_swapped(tmp_path: Path) -> None:
    def put(version: str, text: str) -> None:
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_text(text)
        (tmp_path / "..data_tmp").symlink_to(version)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    put("..2026_01", OLD)
    (tmp_path / "token").symlink_to("..data/token")
    source = read_token(str(tmp_path / "token"))
    put("..2026_02", f"{OLD}\n{NEW}\n")
    assert source.refresh()
    assert accepted(source) == [OLD, NEW]
    assert not source.refresh()


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """A shell makes one of `<(…)`. Nobody writes to it any more: a second read would wait for ever."""
    reading, writing = os.pipe()
    os.write(writing, OLD.encode())
    os.close(writing)
    try:
        source = read_token(f"/dev/fd/{reading}")
    finally:
        os.close(reading)
    assert not source.refresh()
    assert accepted(source) == [OLD]


def test_a_token_of_the_environment_stays() -> None:
    source = find_token(None, {"KVWAL_TOKEN": f" {OLD}\n"})
    assert source is not None
    assert not source.refresh()
    assert accepted(source) == [OLD]


class Watched:
    """Two token files, the watch of them, and what the tokens of the first were at each change."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / "token", folder / "http-token"]
        for file in self.files:
            file.write_text(OLD)
        self.sources = [read_token(str(file)) for file in self.files]
        self.changes: list[list[str]] = []
        workers = ThreadWorkers("test", 1)
        self.watch = TokenWatch(self.sources, lambda: self.changes.append(accepted(self.sources[0])), workers)
        workers.close()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_change_of_a_file_is_told_once(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kvwal")
    watched.watch.look()
    assert watched.changes == []
    watched.files[0].write_text(f"{OLD}\n{NEW}\n")
    watched.watch.look()
    watched.watch.look()
    assert watched.changes == [[OLD, NEW]]
    assert [record.getMessage().split(" file=")[0] for record in caplog.records] == ["a token file has changed"]
    assert watched.watch.files() == [
        TokenFile(str(watched.files[0]), 2, None),
        TokenFile(str(watched.files[1]), 1, None),
    ]
    assert not [token for token in (OLD, NEW) if token in caplog.text]


@pytest.mark.parametrize("text", [None, "", f"{OLD}\n{NEW}\n{THIRD}", "too short"])
def test_a_file_that_cannot_be_used_leaves_the_tokens_and_is_logged_once(
    watched: Watched, caplog: pytest.LogCaptureFixture, text: str | None
) -> None:
    caplog.set_level(logging.INFO, "kvwal")
    file = watched.files[0]
    file.unlink() if text is None else file.write_text(text)
    for _ in range(3):
        watched.watch.look()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.records[0].getMessage().startswith(FAILING)
    assert accepted(watched.sources[0]) == [OLD]
    failing, well = watched.watch.files()
    assert failing.failure is not None
    assert (failing.path, failing.tokens, well.failure) == (str(file), 1, None)
    file.write_text(NEW)
    watched.watch.look()
    assert watched.changes == [[NEW]]
    assert watched.watch.files()[0] == TokenFile(str(file), 1, None)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "INFO"]


def test_a_failure_of_another_kind_is_logged_too(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.files[1].write_text("too short")
    watched.watch.look()
    watched.files[1].unlink()
    watched.watch.look()
    assert len(caplog.records) == 2
    assert watched.changes == []
