"""What people read in Slack and e-mail, and what hostile text can do there: nothing."""

import json
from email import message_from_bytes, policy
from typing import Any

import msgspec
import pytest

from jackfield.model.event import EVENT_TYPES
from jackfield.notify.mail import mail_of
from jackfield.notify.slack import slack_body
from jackfield.notify.types import TEST_TYPE, Message
from jackfield.notify.wording import wording_of
from jackfield.settings.notify import NotifySettings
from tests.requirement import requirement

HOSTILE = "<!channel> <@U123> <https://evil.example|pay> https://evil.example\r\nBcc: all@example.com\n\u202e*x* & <b>"
CALL: dict[str, Any] = {
    "call_id": "call_1",
    "tool": f"pay{HOSTILE}",
    "source": HOSTILE,
    "principal": HOSTILE,
    "agent": HOSTILE,
    "arguments": {"to": HOSTILE},
    "error": {"code": "x", "message": HOSTILE},
    "created_at": "2026-01-15T10:30:00.000Z",
    "expires_at": None,
    "login_source": HOSTILE,
    "approval_url": "https://gateway.example/api/v1/callbacks/call_1.abc",
    "reason": HOSTILE,
    "sent_by": HOSTILE,
}
MAIL = msgspec.convert(
    {"kind": "email", "smtp": "localhost", "to": "a@example.com", "from": "b@example.com", "on": ["call.failed"]},
    NotifySettings,
)


def message(type_: str = "call.pending_approval") -> Message:
    return Message(id="msg_1", type=type_, at=1_768_473_000_000, data=CALL)


@pytest.mark.parametrize("type_", [*EVENT_TYPES, TEST_TYPE])
@requirement("OPS-notify-foreign-text")
def test_slack_reads_foreign_text_as_plain_text(type_: str) -> None:
    body = json.loads(slack_body(wording_of(message(type_))))
    assert "<" not in body["text"]
    assert ">" not in body["text"]
    assert body["link_names"] is False
    for block in body["blocks"]:
        texts = [block["text"]] if "text" in block else [one["text"] for one in block["elements"]]
        assert {text["type"] for text in texts} == {"plain_text"}
        assert all(0 < len(text["text"]) <= 3000 for text in texts)
        assert all("\u202e" not in text["text"] for text in texts)
    assert len(body["blocks"][0]["text"]["text"]) <= 150


def test_slack_has_a_button_with_the_signed_link() -> None:
    body = json.loads(slack_body(wording_of(message())))
    [button] = body["blocks"][-1]["elements"]
    assert button["url"] == CALL["approval_url"]


@pytest.mark.parametrize("type_", [*EVENT_TYPES, TEST_TYPE])
@requirement("OPS-notify-foreign-text")
def test_mail_has_no_header_and_no_link_of_foreign_text(type_: str) -> None:
    sent = mail_of(message(type_), MAIL, host="gateway.example").as_bytes(policy=policy.SMTP)
    mail = message_from_bytes(sent, policy=policy.default)
    assert set(mail.keys()) == {
        "Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type",
    }  # fmt: skip
    assert mail["Message-ID"] == "<msg_1@gateway.example>"
    for part in mail.iter_parts():
        text = part.get_content()
        assert "https://evil" not in text
        assert "\u202e" not in text
        if part.get_content_type() == "text/html":
            assert "<b>" not in text.split("</p>", 1)[1]
            assert "<!channel>" not in text
        assert (CALL["approval_url"] in text) is (type_ == "call.pending_approval")


def test_a_message_says_who_asks_in_whose_name() -> None:
    data = CALL | {"agent": "concierge", "principal": "user:ada", "tool": "pay"}
    wording = wording_of(Message(id="m", type="call.pending_approval", at=0, data=data))
    assert wording.title == "concierge (for user:ada) asks to run pay"
    data |= {"principal": "agent:concierge"}
    assert wording_of(Message(id="m", type="call.failed", at=0, data=data)).lines[0] == ("Asked by", "concierge")
