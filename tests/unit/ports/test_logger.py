"""What kvwal logs belongs to the program that uses it: its handlers hear it, and standard output is never written to."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from kvwal.ports.logger import JsonLines, get_logger

PROGRAM = """
import logging, sys
{configure}
import structlog
import kvwal
with kvwal.open(sys.argv[1], archive=None) as store:
    store.map("jobs")
assert not structlog.is_configured()
assert not logging.getLogger("kvwal").handlers
"""


def torn(root: Path) -> None:
    """A log whose open logs a warning."""
    code = "import kvwal,os,sys; s = kvwal.open(sys.argv[1], archive=None); s.map('jobs')['a'] = 1; os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)
    (segment,) = root.rglob("*.wal")
    with segment.open("ab") as file:
        file.write(b"torn" * 100)
    data = bytearray(segment.read_bytes())
    end = data.rindex(b"str")
    data[end] ^= 1
    segment.write_bytes(data)


@pytest.mark.parametrize(
    ("configure", "expected"),
    [
        ("", "cut a torn tail, as a crash leaves it"),
        ("logging.basicConfig(format='HEARD %(name)s %(levelname)s %(message)s')", "HEARD kvwal.store.engine WARNING cut a torn"),
        ("logging.basicConfig(level=logging.ERROR)", ""),
    ],
    ids=["nothing", "basicConfig", "errors only"],
)  # fmt: skip
def test_a_program_hears_the_log_as_it_says(tmp_path: Path, configure: str, expected: str) -> None:
    torn(tmp_path)
    program = PROGRAM.format(configure=configure)
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout == ""
    assert expected in ran.stderr
    assert bool(ran.stderr) == bool(expected)


def test_a_record_has_the_fields_and_the_line_that_logged(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("kvwal.test").bind(node="n").warning("a line", business="b\x1b[31m", name="100%s")
    (record,) = caplog.records
    assert vars(record)["kvwal"] == {"event": "a line", "node": "n", "business": "b\x1b[31m", "name": "100%s"}
    assert record.getMessage() == "a line node='n' business='b\\x1b[31m' name='100%s'"
    assert (record.name, record.levelname, record.module) == ("kvwal.test", "WARNING", "test_logger")


def test_every_line_of_a_node_is_one_json_object() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("kvwal.test.json")
    logger.addHandler(handler)
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        get_logger("kvwal.test.json").error("a bug", exc_info=error, path=Path("p"))
    logging.getLogger("kvwal.test.json.other").warning("plain\ntext %d", 7)
    logger.removeHandler(handler)
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["event"] == "a bug"
    assert "two\nlines" in first["exception"]
    assert (second["event"], second["level"]) == ("plain\ntext 7", "warning")


def test_a_line_of_json_stays_one_line_and_can_be_read_by_people() -> None:
    record = logging.LogRecord("kvwal.node", logging.ERROR, "", 0, "sequences 2–3 \u2028 \x85 \x9b31m é", None, None)
    line = JsonLines().format(record)
    assert "sequences 2–3 \\u2028 \\u0085 \\u009b31m é" in line
    assert line.splitlines() == [line]
    assert json.loads(line)["event"] == record.getMessage()
