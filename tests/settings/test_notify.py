"""`[notify.NAME]` is checked at the start."""

from pathlib import Path

import pytest

from jackfield.errors import ConfigError
from jackfield.settings import load_settings
from jackfield.settings.notify import smtp_server
from tests.requirement import requirement

WEBHOOK = 'kind = "webhook"\nurl = "https://x.example/"\non = ["call.failed"]\n'
EMAIL = """kind = "email"
smtp = "smtp://mail.example:25"
from = "a@x.example"
to = "b@x.example"
on = ["call.failed"]
"""


def load(folder: Path, table: str, name: str = "ops") -> object:
    path = folder / "jackfield.toml"
    path.write_text(f"[notify.{name}]\n{table}", encoding="utf-8")
    environment = {"SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "PASSWORD": "x-password"}
    return load_settings(path, environment=environment).notify["ops"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('kind = "pager"\non = ["call.failed"]', "Known: email, slack, webhook"),
        ('kind = "webhook"\nurl = "https://x.example"', "needs the key 'on'"),
        (WEBHOOK.replace("call.failed", "call.exploded"), "Known: agent.failed, call.failed"),
        (WEBHOOK.replace('["call.failed"]', "[]"), "length >= 1"),
        ('kind = "slack"\non = ["call.failed"]', "needs the key 'url'"),
        (WEBHOOK.replace("https://x.example/", "ftp://x"), "notify.ops.url is not an http or https URL"),
        (WEBHOOK.replace("https://x.example/", "https://"), "is not an http or https URL"),
        (WEBHOOK + 'secret = "short"', "is not a webhook secret"),
        (WEBHOOK + 'secret = "${NOTHING}"', "NOTHING"),
        (WEBHOOK + 'smtp = "mail.example"', "notify.ops.smtp has no meaning"),
        (WEBHOOK + "where = { tools = 'x' }", "unknown key 'tools'"),
        (WEBHOOK + "give_up_after = 0", "give_up_after"),
        (WEBHOOK.replace('"webhook"', '"slack"') + 'secret = "${SECRET}"', "notify.ops.secret has no meaning"),
        (EMAIL.replace('to = "b@x.example"\n', ""), "needs the key 'to'"),
        (EMAIL.replace("b@x.example", "b at x"), "is not an e-mail address"),
        (EMAIL.replace("b@x.example", "b@x.example\\nBcc: c@x.example"), "is not an e-mail address"),
        (EMAIL.replace("smtp://mail.example:25", "https://mail.example"), "is not a mail server"),
        (EMAIL.replace("smtp://mail.example:25", "smtp://mail.example:x"), "is not a mail server"),
        (EMAIL + 'username = "me"', "but not both"),
    ],
)
@requirement("OPS-notify-config")
def test_a_target_that_cannot_be_used_stops_the_start(tmp_path: Path, table: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, table)
    assert says in str(raised.value)
    assert str(tmp_path / "jackfield.toml") in str(raised.value)


def test_a_name_that_is_no_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 to 64 letters"):
        load(tmp_path, WEBHOOK, name='"a b"')


@pytest.mark.parametrize(
    ("smtp", "more", "expected"),
    [
        ("mail.example", "", ("mail.example", 587, False, True, None)),
        ("smtps://mail.example", "", ("mail.example", 465, True, True, None)),
        ("smtp://localhost:2525", "", ("localhost", 2525, False, False, None)),
        ("smtp://mail.example", "starttls = false", ("mail.example", 587, False, False, None)),
        ("smtp://me%40x:${PASSWORD}@mail.example", "", ("mail.example", 587, False, True, "me@x")),
    ],
)
def test_the_mail_server_is_read_from_its_url(tmp_path: Path, smtp: str, more: str, expected: object) -> None:
    settings = load(tmp_path, EMAIL.replace("smtp://mail.example:25", smtp) + more)
    server = smtp_server(settings, where="notify.ops")  # type: ignore[arg-type]
    assert (server.host, server.port, server.is_tls, server.needs_starttls, server.username) == expected
