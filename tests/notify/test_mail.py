"""E-mail to a real SMTP server in this process."""

from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from tests.harness.in_process import in_process_gateway
from tests.notify.smtp_server import SmtpReceiver, certificate, smtp_receiving
from tests.notify.test_delivery import TOOLS, call
from tests.requirement import requirement
from tests.waiting import eventually_async


def target(receiver: SmtpReceiver, more: str = "") -> str:
    return f"""
[notify.people]
kind = "email"
smtp = "smtp://127.0.0.1:{receiver.port}"
from = "jackfield@example.com"
to = ["ada@example.com", "ops@example.com"]
on = ["call.pending_approval"]
{more}
"""


@requirement("OPS-notify-mail")
async def test_an_approval_is_mailed_with_its_link(tmp_path: Path) -> None:
    async with smtp_receiving() as receiver, in_process_gateway(tmp_path, TOOLS + target(receiver)) as (_, client):
        call_id = await call(client, "pay", amount=7, note="ünï")
        [sent] = await eventually_async(lambda: receiver.mails)
        path = (await client.get(f"/api/v1/calls/{call_id}")).json()["call"]["approval_url"]
    mail = message_from_bytes(sent, policy=policy.default)
    assert mail["Subject"] == "admin asks to run pay"
    assert mail["To"] == "ada@example.com, ops@example.com"
    plain, rich = mail.iter_parts()
    assert (plain.get_content_type(), rich.get_content_type()) == ("text/plain", "text/html")
    assert f"Review it: {path}" in plain.get_content()
    assert '"amount":7' in plain.get_content()
    assert "ünï" in plain.get_content()
    assert f'href="{path}"' in rich.get_content()


@requirement("OPS-notify-mail")
async def test_a_login_is_sent_over_starttls_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, trusted = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    more = 'starttls = true\nusername = "me"\npassword = "secret-word"'
    async with smtp_receiving(context) as receiver:
        async with in_process_gateway(tmp_path, TOOLS + target(receiver, more)) as (_, client):
            await call(client, "pay")
            await eventually_async(lambda: receiver.mails)
        assert receiver.encrypted == [True]
        assert receiver.logins == ["\0me\0secret-word"]
    async with smtp_receiving() as receiver:
        async with in_process_gateway(tmp_path, TOOLS + target(receiver, more)) as (_, client):
            answer = await client.post("/api/v1/notifications/targets/people/test")
        assert answer.json()["success"] is False
        assert not receiver.logins
        assert not receiver.mails


@pytest.mark.parametrize(
    ("answers", "becomes"),
    [
        ({"RCPT": "550 nobody"}, "failed"),
        ({"RCPT": "451 later"}, "pending"),
        ({"DATA": "554 spam"}, "failed"),
        ({"MAIL": "421 busy"}, "pending"),
    ],
)
@requirement("OPS-notify-mail")
async def test_a_permanent_refusal_is_given_up_and_another_is_not(
    tmp_path: Path, answers: dict[str, str], becomes: str
) -> None:
    async with smtp_receiving() as receiver:
        receiver.answers = answers
        async with in_process_gateway(tmp_path, TOOLS + target(receiver)) as (_, client):
            await call(client, "pay")

            async def tried() -> dict[str, Any] | None:
                answer = await client.get("/api/v1/notifications")
                [one] = answer.json()["notifications"]
                return dict(one) if one["attempts"] else None

            told = await eventually_async(tried)
            assert told["status"] == becomes
            assert next(iter(answers.values())).split()[0] in told["error"]
