"""`jackfield connections` and `jackfield vault`: what they print."""

from jackfield.cli.connections import list_lines
from jackfield.cli.vault import status_lines
from jackfield.sdk.connections import ConnectionInfo
from jackfield.sdk.vault import VaultInfo


def test_connections_are_listed_with_whose_they_are() -> None:
    found = (
        ConnectionInfo(source="git", auth="user", principal="ann", status="connected", scopes=("repo", "org")),
        ConnectionInfo(source="wiki", auth="shared"),
    )
    lines = list_lines(found)
    assert lines[0].split() == ["SOURCE", "WHOSE", "STATUS", "SCOPES", "SINCE"]
    assert lines[1].split() == ["git", "ann", "connected", "repo", "org", "-"]
    assert lines[2].split() == ["wiki", "everybody", "login_needed", "-", "-"]
    assert list_lines(()) == []


def test_the_vault_says_where_its_key_is_and_what_is_to_do() -> None:
    assert list(status_lines(VaultInfo())) == ["The vault is not in use: no source has auth."]
    lines = list(status_lines(VaultInfo(key="environment", key_id="abc", entries=3, old=2)))
    assert lines == [
        "3 secrets, AES-256-GCM.",
        "Key abc, from JACKFIELD_VAULT_KEY.",
        "Of these, 2 sealed with an old key. Run: jackfield vault rotate",
    ]
