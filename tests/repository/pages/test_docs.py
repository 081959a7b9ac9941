"""Documents that cannot fall behind: links resolve, and what they show was run."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from kvwal.config import Settings
from tests.repository.source import ROOT, committed, modules
from tests.support.cli import kvwal
from tests.support.deploy.terminal import plain, typed

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the usual renderers make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text())):
            broken.append(f"{page.relative_to(ROOT)}: {target}")
    return broken


def test_every_link_of_every_page_resolves() -> None:
    assert not [link for page in committed(".md") for link in broken_links(ROOT / page)]


KINDS = {"tutorial", "how-to", "reference", "explanation"}
PAGE = re.compile(r"^\| \[[^\]]+\]\((\S+)\) \| ([\w-]+) \| (.+) \|$", re.MULTILINE)


def test_the_readme_leads_to_every_page_and_names_its_kind() -> None:
    text = (ROOT / "README.md").read_text()
    rows = {path: kind for path, kind, _ in PAGE.findall(text)}
    assert set(rows.values()) <= KINDS
    pages = {page for page in committed(".md") if page.startswith("docs/") and "/decisions/0" not in page}
    assert not [page for page in pages if page not in rows and f"]({page})" not in text]
    assert not [path for path in rows if path not in pages and not (ROOT / path).is_dir()]


def test_an_overtaken_decision_says_so_and_the_index_does() -> None:
    folder = ROOT / "docs" / "decisions"
    rows = re.findall(r"^\| \[\d+\]\((\S+)\) \|.*\|([^|]*)\|$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == sorted(page.name for page in folder.glob("0*.md"))
    said = {page: LINK.findall(line) for page, line in rows}
    assert any(said.values())
    for page, by in said.items():
        found = re.search(r"\A# .+\n\n(Overtaken: .+)", (folder / page).read_text())
        assert (LINK.findall(found[1]) if found else []) == by, page


def told(session: str) -> list[str]:
    """What the comments behind the `print`s of a session say that they print."""
    return [line.rpartition("# ")[2] for line in session.splitlines() if line.lstrip().startswith("print(")]


def run_session(session: str, name: str) -> None:
    """Run it in this folder, and compare what it prints with its comments, line by line."""
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(session, name, "exec"), {"__name__": "session"})
    assert told(session), f"{name}: the session prints nothing"
    assert said.getvalue().splitlines() == told(session)


def test_the_session_of_the_readme_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = SESSION.findall((ROOT / "README.md").read_text())
    assert sessions, "README.md shows no python session"
    monkeypatch.chdir(tmp_path)
    for session in 2 * sessions:  # a reader runs it again, in the same folder
        run_session(session, "README.md")
    assert list(tmp_path.iterdir()), "the session left nothing on disk"
    shown = [line for line in typed((ROOT / "README.md").read_text()) if line.text.startswith("kvwal ") and line.shown]
    assert [line.text.split()[1] for line in shown] == ["get", "query"]
    for line in shown:
        ran = kvwal(*shlex.split(line.text)[1:])
        assert plain(ran.out, []) == plain(line.shown, []), line.text


def test_a_setting_that_is_named_exists() -> None:
    """In the source, what follows the word "setting" in backticks; anywhere, no name that is a setting's but for its unit."""
    settings = set(Settings.__struct_fields__)
    without_unit = {name.rpartition("_")[0] for name in settings} - settings
    source = [module.text for module in modules()]
    pages = [(ROOT / page).read_text() for page in committed(".md")]
    named = {
        name
        for text in source
        for found in re.findall(r"\bsetting `(\w+)`|`(\w+)` setting\b", text)
        for name in found
        if name
    }
    quoted = {name for text in source + pages for name in re.findall(r"`([a-z]+_[a-z_]+)`", text)}
    assert named
    assert not named - settings
    assert not quoted & without_unit
