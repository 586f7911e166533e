"""The id of a tool server: kept for the next process, held by one at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from jackfield.sdk.tools import server_id, state_folder
from tests.requirement import requirement

URL = "http://127.0.0.1:8420"
HOLD = """
import sys
from jackfield.sdk.tools import server_id
with server_id(sys.argv[1], ["add"], source=None) as known_by:
    print(known_by, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def taken(*tools: str, url: str = URL, source: str | None = None) -> str:
    with server_id(url, tools or ("add",), source=source) as known_by:
        return known_by


@requirement("SAFE-server-id-kept")
def test_the_next_server_of_the_same_tools_is_known_by_the_same_id() -> None:
    assert taken("add", "sub") == taken("sub", "add")
    assert len({taken("add"), taken("sub"), taken("add", source="maths"), taken("add", url="http://elsewhere")}) == 4


@requirement("SAFE-server-id-kept")
def test_two_at_the_same_time_have_an_id_each_and_both_are_kept() -> None:
    with server_id(URL, ["add"], source=None) as first, server_id(URL, ["add"], source=None) as second:
        assert first != second
    with server_id(URL, ["add"], source=None) as again, server_id(URL, ["add"], source=None) as other:
        assert (again, other) == (first, second)


@requirement("SAFE-server-id-kept")
def test_a_process_that_was_killed_leaves_its_id_to_the_next() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, URL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        held = process.stdout.readline().strip()
        assert taken("add") != held
        process.kill()
        process.wait()
    assert taken("add") == held


def test_what_is_kept_is_for_nobody_else_and_a_spoilt_file_is_written_anew() -> None:
    first = taken("add")
    [file] = state_folder().iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.write_text("../../etc", encoding="utf-8")
    second = taken("add")
    assert second not in {first, "../../etc"}
    assert taken("add") == second


def test_where_nothing_can_be_kept_the_id_is_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert taken("add") != taken("add")
