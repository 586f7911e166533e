"""This gateway in other programs' config files: their shapes, what stays, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from jackfield.cli.connect import clients, entry_for, with_server
from jackfield.cli.files import replace_file
from jackfield.cli.options import UsageError
from jackfield.sdk.address import Address

ADDRESS = Address(url="http://127.0.0.1:8420", key="jf_secret")
URL = "http://127.0.0.1:8420/mcp"
FILE = Path("mcp.json")


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("claude-code", {"type": "http", "url": URL, "headers": {"Authorization": "Bearer jf_secret"}}),
        ("cursor", {"url": URL, "headers": {"Authorization": "Bearer jf_secret"}}),
        ("vscode", {"type": "http", "url": URL, "headers": {"Authorization": "Bearer jf_secret"}}),
    ],
)
def test_each_client_is_told_in_its_own_words(client: str, entry: dict[str, Any]) -> None:
    assert entry_for(clients()[client], ADDRESS, key_variable=None) == entry


@pytest.mark.parametrize(
    ("client", "written"), [("claude-code", "${K}"), ("cursor", "${env:K}"), ("vscode", "${env:K}")]
)
def test_the_key_may_stay_in_the_environment(client: str, written: str) -> None:
    entry = entry_for(clients()[client], ADDRESS, key_variable="K")
    assert entry["headers"] == {"Authorization": f"Bearer {written}"}


def connected(before: str | None, client: str = "cursor", **entry: Any) -> str:
    return with_server(before, FILE, client=clients()[client], name="jackfield", entry=entry or {"url": "u"})


@pytest.mark.parametrize("before", [None, "", " \n"])
def test_a_file_that_is_not_there_is_made(before: str | None) -> None:
    assert json.loads(connected(before)) == {"mcpServers": {"jackfield": {"url": "u"}}}
    assert json.loads(connected(before, "vscode")) == {"servers": {"jackfield": {"url": "u"}}}


def test_other_entries_their_order_and_the_indent_stay() -> None:
    before = '{\n\t"z": 1,\n\t"mcpServers": {\n\t\t"other": {"command": "ü"}\n\t},\n\t"a": 2\n}\n'
    after = connected(before)
    assert list(json.loads(after)) == ["z", "mcpServers", "a"]
    assert list(json.loads(after)["mcpServers"]) == ["other", "jackfield"]
    assert after.startswith('{\n\t"z": 1,')
    assert '"ü"' in after


def test_an_entry_that_is_as_it_should_be_is_left_alone_and_an_old_one_replaced() -> None:
    before = '{"mcpServers":{"jackfield":{"url":"u"}}}'
    assert connected(before) == before
    assert json.loads(connected(before, url="v")) == {"mcpServers": {"jackfield": {"url": "v"}}}


@pytest.mark.parametrize(
    ("before", "sentence"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"mcpServers": []}', "'mcpServers' in mcp.json must be an object of servers"),
        ('{ // mine\n"mcpServers": {}}', 'has comments, which would be lost.*by hand: "jackfield": {"url": "u"}'),
    ],
)
def test_a_file_that_cannot_be_kept_whole_is_refused(before: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        connected(before)


def test_a_file_is_written_whole_private_and_never_over_somebody_elses_change(tmp_path: Path) -> None:
    path = tmp_path / "deep/mcp.json"
    replace_file(path, "one", before=None, private=True)
    assert (path.read_text(encoding="utf-8"), path.stat().st_mode & 0o777) == ("one", 0o600)
    path.chmod(0o640)
    replace_file(path, "two", before="one")
    assert path.stat().st_mode & 0o777 == 0o640
    for before in ("one", None):
        with pytest.raises(UsageError, match="was changed in the meantime"):
            replace_file(path, "three", before=before)
    assert path.read_text(encoding="utf-8") == "two"
    assert [each.name for each in path.parent.iterdir()] == ["mcp.json"]


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("a", encoding="utf-8")
    link.symlink_to(real)
    replace_file(link, "b", before="a")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "b"
