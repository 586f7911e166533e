"""`jackfield keys`: what it prints, and what it does not take."""

from jackfield.cli.keys import list_lines, new_key_lines
from jackfield.sdk.keys import KeyInfo
from tests.requirement import requirement


@requirement("ID-keys-cli")
def test_keys_are_listed_with_their_limits() -> None:
    found = (
        KeyInfo(name="admin", scopes=("admin",), origin="file"),
        KeyInfo(name="ci", scopes=("call",), tools=("build_*",), groups=(), budget=5, origin="api"),
    )
    lines = list_lines(found)
    assert lines[0].split() == ["NAME", "SCOPES", "LIMITS", "ORIGIN", "EXPIRES"]
    assert lines[2].split() == ["ci", "call", "tools=build_*", "groups=none", "budget=5", "api", "never"]


def test_a_new_key_is_shown_and_said_to_be_shown_once() -> None:
    made = KeyInfo(name="ci", key="jf_secret", old_key_until="2026-01-01T00:00:00Z")
    assert "\n".join(new_key_lines(made)) == (
        "jf_secret\nThe key of 'ci'. It is not shown again: store it now.\n"
        "The old key is good until 2026-01-01T00:00:00Z."
    )
