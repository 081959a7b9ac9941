"""What a bucket answers besides objects: refusals, redirects, more than was asked for. A real server behind a proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.ports.locks import Lock
from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ConfigError
from kvwal_archive.merge import latest_plain
from kvwal_archive.objects import Known, Objects, OneLook, open_objects
from kvwal_archive.reader import coverage
from kvwal_archive.verify import verify
from kvwal_archive.view import latest
from tests.support.archive import s3
from tests.support.archive.history import LOG, fill, merged, place, rows
from tests.support.archive.proxy import PAGE, Proxy, proxied

CALLS = {
    "list": lambda objects: objects.list(""),
    "put": lambda objects: objects.put_if_absent("a", b"1"),
    "read": lambda objects: objects.read("a"),
}


@pytest.fixture(scope="module")
def server() -> s3.Server:
    return s3.server()


@pytest.fixture
def proxy(server: s3.Server) -> Iterator[Proxy]:
    with proxied(server.endpoint) as made:
        yield made


@pytest.fixture
def url(server: s3.Server) -> str:
    return f"{s3.bucket(server)}/some/prefix"


@pytest.fixture
def objects(server: s3.Server, proxy: Proxy, url: str) -> Objects:
    return open_objects(url, server._replace(endpoint=proxy.url).options())


@pytest.fixture(scope="module")
def refusing() -> Iterator[tuple[Proxy, Objects]]:
    """A bucket that answers every request with an error, and no server behind it."""
    with proxied("http://127.0.0.1:9") as made:
        yield made, open_objects("s3://bucket/prefix", s3.Server(made.url, "key", "secret").options())


SENTENCES = [
    ("403 RequestTimeTooSkewed", "refused access: the clock of this machine is wrong", "Set the clock"),
    ("400 ExpiredToken", "refused access: the session token has expired", "Renew the credentials"),
    ("403 InvalidAccessKeyId", r"refused access: a wrong key or secret \(", "AWS_ACCESS_KEY_ID"),
    ("403 AccessDenied", "refused access: a wrong key or secret, or no permission", "AWS_ACCESS_KEY_ID"),
    ("301 PermanentRedirect", "answered with the address of another endpoint", "AWS_ENDPOINT_URL"),
    ("307 TemporaryRedirect", "answered with the address of another endpoint", "AWS_ENDPOINT_URL"),
    ("501 NotImplemented", "does not support this request; .*If-None-Match", "folder"),
]


@pytest.mark.parametrize(("answer", "says", "hint"), SENTENCES, ids=[answer for answer, _, _ in SENTENCES])
@pytest.mark.parametrize("call", CALLS)
def test_each_refusal_has_its_own_sentence(
    answer: str, says: str, hint: str, call: str, refusing: tuple[Proxy, Objects]
) -> None:
    proxy, objects = refusing
    proxy.choose = lambda method, path: answer
    with pytest.raises(ArchiveError, match=says) as caught:
        CALLS[call](objects)
    assert hint in caught.value.hint
    assert "RecursionError" not in str(caught.value)


@pytest.mark.long
def test_a_proxy_that_ignores_ranges_makes_no_object_damaged(server: s3.Server, objects: Objects, proxy: Proxy) -> None:
    fill(objects, place("a"), [(1, 50), (51, 100)])
    proxy.whole = lambda path: bytes(s3.filesystem(server).cat_file(path.lstrip("/")))
    proxy.choose = lambda method, path: "whole" if method == "GET" and path.endswith(".parquet") else None
    assert latest(objects, "ns", "local", "jobs").equals(merged(latest_plain(rows(1, 100, node="a"))))


@pytest.mark.long
@pytest.mark.parametrize("kept_in", ["file", "environment"])
def test_keys_that_are_renewed_while_a_store_is_open_are_used(
    server: s3.Server, url: str, kept_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    credentials = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))

    def keep(secret: str) -> None:
        if kept_in == "environment":
            os.environ["AWS_SECRET_ACCESS_KEY"] = secret
        else:
            os.environ.pop("AWS_ACCESS_KEY_ID", None)
            os.environ.pop("AWS_SECRET_ACCESS_KEY", None)
            credentials.write_text(f"[default]\naws_access_key_id={server.key}\naws_secret_access_key={secret}\n")

    keep("an old one")
    with kvwal.open(tmp_path / "root", archive=url) as store:
        store.map("b")["a"] = 1
        with pytest.raises(ArchiveError, match="refused access: a wrong key or secret"):
            store.archive()
        keep(server.secret)
        store.archive()
        assert store.stats()["businesses"]["b"]["archive_lag_entries"] == 0


def test_an_open_archive_asks_for_the_keys_again(
    server: s3.Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "an old one")
    objects = open_objects(url)
    with pytest.raises(ArchiveError, match="refused access"):
        objects.list("")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    assert objects.put_if_absent("a", b"1")
    assert objects.read_ranges([("a", 0, 1)]) == [b"1"]


@pytest.mark.parametrize("page", [PAGE, b""], ids=["page", "nothing"])
@pytest.mark.parametrize("call", CALLS)
def test_a_page_in_place_of_a_bucket_is_no_answer_of_it(
    page: bytes, call: str, refusing: tuple[Proxy, Objects]
) -> None:
    """A listing of it would be an archive without objects, and a put would have taken the object."""
    proxy, objects = refusing
    proxy.page = page
    proxy.choose = lambda method, path: "page"
    with pytest.raises(ArchiveError, match="gave an answer that is none of a bucket") as caught:
        CALLS[call](objects)
    assert "a proxy or a sign-in page" in caught.value.hint


def test_parts_of_a_large_object_that_a_page_answers_are_put_again(
    objects: Objects, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvwal_archive.objects.remote.SINGLE_PUT_BYTES", 1 << 20)
    large = tmp_path / "large"
    large.write_bytes(os.urandom(20 << 20))
    left = ["POST", "PUT"]

    def choose(method: str, path: str) -> str | None:
        if method not in left:
            return None
        left.remove(method)
        return "page"

    proxy.choose = choose
    assert objects.put_if_absent("large", large)
    assert proxy.met["page"] == 2
    objects.confirm("large", large)


@pytest.mark.long
@pytest.mark.parametrize("wrong", ["flipped", "short", "torn"])
def test_an_object_that_comes_damaged_is_asked_for_again(
    wrong: str, objects: Objects, proxy: Proxy, tmp_path: Path
) -> None:
    (stored,) = fill(objects, place("a"), [(1, 50)])
    sound = objects.read(stored.key)

    def is_read(method: str, path: str) -> bool:
        return method == "GET" and path.endswith(".parquet")

    left = [wrong] * 2
    proxy.choose = lambda method, path: left.pop() if left and is_read(method, path) else None
    assert objects.read(stored.key) == sound
    left += [wrong] * 2
    assert objects.fetch(stored.key, tmp_path).read_bytes() == sound
    proxy.choose = lambda method, path: wrong if is_read(method, path) else None
    kind, says = (ArchiveError, "does not answer") if wrong == "torn" else (ArchiveDamaged, "match their checksum")
    with pytest.raises(kind, match=f"{says}.*{stored.key}"):
        objects.read(stored.key)
    if wrong != "torn":
        assert [finding[:2] for finding in verify(objects).findings] == [("damaged", stored.key)]


@pytest.mark.parametrize("wrong", ["flipped", "short", "page"])
def test_a_registration_that_comes_damaged_is_read_again(wrong: str, objects: Objects, proxy: Proxy) -> None:
    """The archiver keeps what it read for its later jobs."""
    fill(objects, place("a"), [(1, 50)])
    left = [wrong]
    proxy.choose = lambda method, path: left.pop() if left and (method, path[-5:]) == ("GET", "/_log") else None
    known = Known(Lock())
    for _ in range(2):
        assert coverage(OneLook(objects, "ns/local/jobs/", known), place("a"), LOG).last == 50
    assert proxy.met[wrong] == 1


def test_a_store_that_ignores_conditions_is_refused_before_anything_is_put(
    server: s3.Server, proxy: Proxy, url: str, tmp_path: Path
) -> None:
    options = server._replace(endpoint=proxy.url).options()
    proxy.ignores_conditions = True
    with kvwal.open(tmp_path / "root", archive=url, storage_options=options) as store:
        store.map("b")["a"] = 1
        with pytest.raises(ConfigError, match="overwrites an object that should be put only if it is absent") as caught:
            store.archive()
        assert "If-None-Match" in caught.value.hint
        store.close(archive=False)
    assert not [item.key for item in open_objects(url, server.options()).list("") if item.key.endswith(".parquet")]


@pytest.mark.long
def test_a_store_that_ignores_conditions_from_some_day_on_is_refused_at_the_next_start(
    server: s3.Server, proxy: Proxy, url: str, tmp_path: Path
) -> None:
    """The archive was copied to another store, or a gateway was put before it: the log is registered there already."""
    options = server._replace(endpoint=proxy.url).options()
    with kvwal.open(tmp_path / "root", archive=url, storage_options=options) as store:
        for number in range(3):
            store.map("b")["a"] = number
            proxy.puts = 0
            store.archive()
            if number:
                assert proxy.puts == 1  # the object: the store was asked at the first job
    had = open_objects(url, server.options()).list("")
    proxy.ignores_conditions = True
    with kvwal.open(tmp_path / "root", archive=url, storage_options=options) as store:
        store.map("b")["a"] = "later"
        with pytest.raises(ConfigError, match="overwrites an object that should be put only if it is absent"):
            store.archive()
        proxy.ignores_conditions = False
        store.archive()
    now = {item.key: item for item in open_objects(url, server.options()).list("")}
    assert {item.key: item.size for item in had}.items() <= {key: item.size for key, item in now.items()}.items()
    assert len([key for key in now if key.endswith(".parquet")]) == 4
