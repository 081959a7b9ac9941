"""Damaged bytes of large values: told by key and offset, and mended from the archive, in a folder and in an object store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.support.archive import s3
from tests.support.cli import kvwal as command

SETTINGS = kvwal.Settings(inline_bytes=1000)
LARGE = bytes(range(256)) * 100
OWN = b"own" + LARGE
DAMAGED = pytest.mark.breaks("contents", reason="the bytes of values are damaged")


@pytest.fixture(params=["folder", "s3"])
def archive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "folder":
        return str(tmp_path / "archive")
    for name, value in s3.server().environment().items():
        monkeypatch.setenv(name, value)
    return f"{s3.bucket(s3.server())}/prefix"


def filled(root: Path, archive: str | None) -> Path:
    """A store with large values in two maps and a queue, and a content. Returns the claim file of the values."""
    with kvwal.open(root, archive=archive, settings=SETTINGS) as store:
        business = store.business("jobs")
        with business.transaction() as t:  # one file for all
            t.map()["own"] = OWN
            t.map()[7] = LARGE[3:]
            t.map("other")["named"] = LARGE[1:]
            t.queue().put(LARGE[2:])
        store.checkpoint()
        if archive is not None:
            store.archive()
    (path,) = (path for path in root.rglob("content/*/*") if path.is_file())
    return path


def values(root: Path, archive: str | None) -> list[bytes]:
    with kvwal.open(root, archive=archive) as store:
        jobs, other = store.map("jobs"), store.business("jobs").map("other")
        return [jobs["own"], jobs[7], other["named"], *store.queue("jobs").browse()]


def verified(root: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    ran = command("content", "verify", root, "jobs", "--json", *options)
    return ran.code, [json.loads(line) for line in ran.out.splitlines()]


def damage(path: Path, *places: int) -> None:
    """Change the byte at each of these offsets."""
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 1
    path.write_bytes(data)


@DAMAGED
def test_damage_is_told_by_key_and_offset_and_mended(archive: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    path = filled(root, archive)
    whole = path.read_bytes()
    code, (figures,) = verified(root, "--archive", archive)
    assert (code, figures["values"], figures["damaged"]) == (0, 4, 0)
    assert figures["value_bytes"] == sum(map(len, values(root, archive)))
    damage(path, 5, len(whole) - 1)
    code, (*found, figures) = verified(root, "--archive", archive)
    assert (code, figures["damaged"], len(found)) == (4, 2, 2)
    assert {one["file"] for one in found} == {path.name}
    (own,) = (one for one in found if (one["structure"], one["key"]) == ("", "own"))
    assert (own["offset"], own["bytes"]) == (0, len(OWN))
    assert "the value of " in command("log", "verify", root, "jobs", "--archive", archive).out
    code, (figures,) = verified(root, "--archive", archive, "--repair")
    assert (code, figures["repaired"], figures["damaged"]) == (0, 2, 0)
    assert path.read_bytes()[: len(whole)] == whole
    assert verified(root, "--archive", "none")[0] == 0
    assert values(root, None) == [OWN, LARGE[3:], LARGE[1:], LARGE[2:]]
    assert command("log", "verify", root, "jobs", "--archive", archive).code == 0


@DAMAGED
def test_a_file_that_ends_early_is_mended_and_doctor_names_the_key(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", str(tmp_path / "archive")
    path = filled(root, archive)
    path.write_bytes(path.read_bytes()[: len(OWN) + 10])
    assert "the value of " in command("doctor", root, "--archive", archive).out
    ran = command("content", "verify", root, "jobs", "--archive", archive, "--repair")
    assert (ran.code, "3 large values mended" in ran.out) == (0, True)
    assert values(root, None) == [OWN, LARGE[3:], LARGE[1:], LARGE[2:]]


@DAMAGED
def test_what_the_archive_has_not_stays_damaged_and_the_rest_is_mended(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", str(tmp_path / "archive")
    path = filled(root, archive)
    (copy,) = Path(archive).rglob(path.name)
    damage(copy, 5)
    damage(path, 6, len(OWN) + 1)
    before = path.read_bytes()
    code, (one, figures) = verified(root, "--archive", archive, "--repair")
    assert (code, one["key"], figures["repaired"], figures["damaged"]) == (4, "own", 1, 1)
    assert path.read_bytes()[: len(OWN)] == before[: len(OWN)], "never made worse"
    path.unlink()
    ran = command("content", "verify", root, "jobs", "--archive", "none", "--repair")
    assert (ran.code, ran.out.count("the file is missing, and there is no archive")) == (4, 4)
    code, (one, figures) = verified(root, "--archive", archive)
    assert (code, one["key"], figures["damaged"]) == (4, "own", 1)
    copy.unlink()
    ran = command("content", "verify", root, "jobs", "--archive", archive)
    assert (ran.code, ran.out.count("the archive has it neither")) == (4, 4)
