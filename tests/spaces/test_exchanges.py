from msgspec import Raw

from jackfield.model.space import SenderType, SpaceMessage
from jackfield.spaces.exchanges import STOPPED, WINDOW_MS, answers_before, is_told

NOW = 10_000_000


def said(by: str, kind: SenderType = "agent", *, ago: int = 0, metadata: bytes = b"{}") -> SpaceMessage:
    return SpaceMessage(
        id=f"msg_{by}_{ago}",
        space_id="home",
        seq=1,
        entity_id=by,
        sender_name=by,
        sender_type=kind,
        role="user",
        content="hi",
        metadata=Raw(metadata),
        run_id=None,
        created_at=NOW - ago,
    )


def test_answers_of_other_agents_are_counted_up_to_the_last_word_of_a_person() -> None:
    talk = [said("ada"), said("husam", "person"), said("ada"), said("bot"), said("ada"), said("bot")]
    assert answers_before(talk, sender="bot", now=NOW) == 2
    assert answers_before(talk, sender="ada", now=NOW) == 2


def test_a_program_that_only_reports_answers_nobody() -> None:
    assert answers_before([said("bot")] * 50, sender="bot", now=NOW) == 0


def test_what_was_said_long_ago_is_another_conversation() -> None:
    talk = [said("ada", ago=WINDOW_MS + 1), said("ada", ago=5)]
    assert answers_before(talk, sender="bot", now=NOW) == 1


def test_shown_calls_and_notices_are_no_answers() -> None:
    talk = [said("ada", metadata=b'{"type":"tool_call"}'), said("jackfield", "system")]
    assert answers_before(talk, sender="bot", now=NOW) == 0


def test_people_are_told_once_until_one_of_them_speaks() -> None:
    notice = said("jackfield", "system", metadata=b'{"type":"%s"}' % STOPPED.encode())
    assert is_told([said("ada"), notice, said("bot")])
    assert not is_told([notice, said("husam", "person"), said("bot")])
    assert not is_told([said("bot")])
