"""What servers say outside calls: who hears it, from which level on, and how much of it."""

from jackfield.sources.base import LogNote
from jackfield.sources.logs import MAX_PER_SECOND, SourceLogs, lower_level

FAR = frozenset({"far"})


def test_the_lower_of_two_levels_lets_more_through() -> None:
    assert lower_level("info", None) == "info"
    assert lower_level("info", "debug") == lower_level("debug", "error") == "debug"


def test_who_sets_levels_hears_of_a_change_once() -> None:
    logs, heard = SourceLogs(), list[str | None]()
    unfollow = logs.follow_level(lambda: heard.append(logs.level))
    for level in ("debug", "debug", None):
        logs.want(level)
    unfollow()
    logs.want("error")
    assert heard == ["debug", None]


def test_messages_are_redacted_and_a_flood_is_cut_short() -> None:
    heard: list[str] = []
    logs = SourceLogs(redact=lambda note: LogNote(level=note.level, message="[redacted]"))
    logs.listen(lambda _, note: heard.append(note.message))
    for _ in range(MAX_PER_SECOND * 5):
        logs.say(FAR, LogNote(level="info", message="secret"))
    assert MAX_PER_SECOND <= len(heard) <= MAX_PER_SECOND * 2
    assert set(heard) == {"[redacted]"}
