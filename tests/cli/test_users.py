"""`jackfield users`: what it prints."""

from jackfield.cli.users import list_lines
from jackfield.sdk.users import UserInfo
from tests.requirement import requirement


@requirement("ID-users-cli")
def test_people_are_listed_with_their_roles_and_when_they_signed_in() -> None:
    found = (
        UserInfo(id="user:ada", name="Ada\x1b[2J", email="ada@example.org", roles=("staff", "ops"), signed_in_at="T1"),
        UserInfo(id="user:bob", name="Bob", roles=("staff",), signed_in_at="T1", signed_out_at="T2"),
    )
    lines = list_lines(found)
    assert lines[0].split() == ["ID", "NAME", "EMAIL", "ROLES", "LAST"]
    assert "\x1b[2J" not in lines[1]
    assert lines[1].split()[-4:] == ["ops", "signed", "in", "T1"]
    assert lines[2].split() == ["user:bob", "Bob", "-", "staff", "signed", "out", "T2"]
    assert list_lines(()) == ["Nobody has signed in yet."]
