"""What is kept of typed lines: for their user alone, bounded."""

from pathlib import Path

import pytest

from jackfield.cli.typed_lines import MAX_LINES, TypedLines
from tests.requirement import requirement


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "chat_history"


@requirement("OPS-CLI-chat")
def test_lines_are_kept_for_their_user_alone(path: Path) -> None:
    lines = TypedLines(path)
    for line in ("hello", "hello", "  secret", "", "x" * 5000, "a\x1bb", "grüße"):
        lines.add(line)
    assert TypedLines(path).read() == ["hello", "grüße"]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("one\n\x1b[2Jtwo\nthree\n", encoding="utf-8")
    path.chmod(0o644)
    assert TypedLines(path).read() == ["one", "three"]
    assert path.stat().st_mode & 0o777 == 0o600


@requirement("OPS-CLI-chat")
def test_only_the_last_lines_are_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("".join(f"line {number}\n" for number in range(3 * MAX_LINES)), encoding="utf-8")
    lines = TypedLines(path).read()
    assert (len(lines), lines[-1]) == (MAX_LINES, f"line {3 * MAX_LINES - 1}")
    assert path.read_text(encoding="utf-8").splitlines() == lines
    path.write_bytes(b"y" * 900 + b"\n" + (b"x" * 999 + b"\n") * 1100)
    assert set(TypedLines(path).read()) == {"x" * 999}
    assert path.stat().st_size <= 1_000_000
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_is_not_followed_and_a_folder_that_cannot_be_made_is_no_fault(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine\n", encoding="utf-8")
    path.parent.mkdir()
    path.symlink_to(target)
    lines = TypedLines(path)
    assert lines.read() == []
    lines.add("hello")
    assert target.read_text(encoding="utf-8") == "mine\n"
    blocked = TypedLines(target / "chat_history")
    blocked.add("hello")
    assert blocked.read() == []
