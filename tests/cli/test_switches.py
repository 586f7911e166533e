"""`jackfield switch`: what it prints, and what it does not take."""

from argparse import Namespace

import pytest

from jackfield.cli.options import UsageError
from jackfield.cli.switches import _check, list_lines
from jackfield.sdk.types import SwitchInfo


def test_what_is_off_is_listed_with_who_and_why() -> None:
    off = SwitchInfo(
        kind="tool", name="greet", enabled=False, reason="broken", by="admin", at="2026-01-01T00:00:00.000Z"
    )
    lines = list_lines((off,))
    assert lines[0].split() == ["KIND", "NAME", "BY", "SINCE", "REASON"]
    assert lines[1].split() == ["tool", "greet", "admin", "2026-01-01T00:00:00.000Z", "broken"]
    assert list_lines(()) == ["Nothing is switched off for everybody."]


@pytest.mark.parametrize(
    ("action", "kind", "name", "reason", "said"),
    [
        ("off", "tool", None, None, "needs what to switch"),
        ("list", "tool", None, None, "takes nothing more"),
        ("on", "tool", "greet", "why", "--reason is for 'off'"),
    ],
)
def test_what_is_not_taken(action: str, kind: str, name: str | None, reason: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        _check(Namespace(action=action, kind=kind, name=name, reason=reason))
