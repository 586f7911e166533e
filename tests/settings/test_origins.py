"""Every value of the settings has an origin, and none shows a secret."""

import json
from pathlib import Path
from typing import Any

import pytest

from jackfield.settings import Settings, load_settings
from jackfield.settings.changes import in_force
from jackfield.settings.origins import for_show
from tests.requirement import requirement

WRITTEN = "writtenOut01234567890123"
SECRET = "value-of-the-variable"


def loaded(folder: Path, text: str, *, environment: dict[str, str] | None = None, **overrides: Any) -> Settings:
    path = folder / "jackfield.toml"
    path.write_text(text)
    return load_settings(path, environment={"A_SECRET": SECRET, **(environment or {})}, overrides=overrides)


def shown(settings: Settings) -> dict[str, tuple[Any, str, str | None]]:
    return {one.key: (one.value, one.origin, one.given_by) for one in settings.values}


@requirement("CONSOLE-config-origins")
def test_each_value_says_whether_the_file_a_variable_an_option_or_nobody_set_it(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        "[server]\nhost = '127.0.0.2'\nport = 1\nwatch = true\n[groups.g]\ntools = ['a']\n",
        environment={"JACKFIELD_PORT": "2", "JACKFIELD_STORE": "postgresql://me:word@db/x"},
        host="127.0.0.3",
    )
    values = shown(settings)
    assert values["server.watch"] == (True, "file", None)
    assert values["server.host"] == ("127.0.0.3", "command_line", "--host")
    assert values["server.port"] == ("2", "environment", "JACKFIELD_PORT")
    assert values["store.url"] == ("postgresql://[redacted]@db/x", "environment", "JACKFIELD_STORE")
    assert values["store.keep"] == (30, "default", None)
    assert values["groups.g.tools"] == (["a"], "file", None)
    assert values["groups.g.description"] == ("", "default", None)


@requirement("CONSOLE-config-origins")
def test_secrets_are_shown_by_their_names_only(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        f"""
[auth.keys.a]
key = "${{A_SECRET}}"
[auth.keys.b]
key = "{WRITTEN}"
[auth.oidc]
issuer = "https://accounts.example.org"
client_id = "gateway"
client_secret = "{WRITTEN}"
[sources.hub]
kind = "mcp"
url = "https://user:{WRITTEN}@hub.example.org/mcp?api_key={WRITTEN}&page=2"
headers = {{ Authorization = "Bearer ${{A_SECRET}}", X-Plain = "{WRITTEN}" }}
[sources.run]
kind = "mcp"
command = ["serve", "--token", "{WRITTEN}", "--api-key={WRITTEN}", "--port", "12"]
env = {{ ANY = "{WRITTEN}" }}
[sources.open]
kind = "openapi"
url = "https://api.example.org/openapi.json"
auth = {{ type = "bearer", token = "{WRITTEN}" }}
[sources.keyed]
kind = "openapi"
url = "https://api.example.org/openapi.json"
auth = {{ type = "api_key", name = "X-Key", value = "{WRITTEN}" }}
[sources.local]
kind = "files"
path = "x.py"
secrets = ["A_SECRET"]
config = {{ door = "open sesame", where = "${{A_SECRET}}", most = 3, inner = {{ word = "friend" }} }}
[sources.guarded]
kind = "mcp"
command = ["serve", "--pin", "1234", "--db-pass=hunter2", "-p", "80", "--pinned", "x"]
license = "ABCD-1234"
[sources.function]
kind = "mcp"
url = "https://f.example.org/api?code=short&page=2"
[models.m]
provider = "openai"
base_url = "https://m.example.org/v1"
model = "m"
api_key = "{WRITTEN}"
[notify.chat]
kind = "slack"
url = "https://hooks.slack.com/services/T0/{WRITTEN}"
on = ["call.pending"]
[[hooks]]
on = "before_call"
url = "https://hooks.example.org/x"
secret = "whsec_{WRITTEN}"
[sessions.s]
command = ["run"]
env = {{ INNER = "{WRITTEN}" }}
""",
    )
    values = shown(settings)
    for key, (value, _, _) in values.items():
        assert WRITTEN not in str(value), key
        assert SECRET not in str(value), key
    assert values["auth.keys.a.key"] == ("${A_SECRET}", "file", None)
    assert values["auth.keys.b.key"] == ("[redacted]", "file", None)
    assert values["auth.oidc.client_id"][0] == "gateway"
    assert values["sources.hub.url"][0] == "https://[redacted]@hub.example.org/mcp?api_key=[redacted]&page=2"
    assert values["sources.hub.headers"][0] == {"Authorization": "Bearer ${A_SECRET}", "X-Plain": "[redacted]"}
    assert values["sources.run.command"][0] == [
        "serve",
        "--token",
        "[redacted]",
        "--api-key=[redacted]",
        "--port",
        "12",
    ]
    assert values["sources.open.auth"][0] == {"type": "bearer", "token": "[redacted]"}
    assert values["sources.keyed.auth"][0] == {"type": "api_key", "name": "X-Key", "value": "[redacted]"}
    assert values["sources.local.secrets"][0] == ["A_SECRET"]
    config = {"door": "[redacted]", "where": "${A_SECRET}", "most": 3, "inner": {"word": "[redacted]"}}
    assert values["sources.local.config"][0] == config
    assert values["sources.guarded.command"][0] == [
        "serve",
        "--pin",
        "[redacted]",
        "--db-pass=[redacted]",
        "-p",
        "80",
        "--pinned",
        "x",
    ]
    assert values["sources.guarded.license"][0] == "[redacted]"
    assert values["sources.function.url"][0] == "https://f.example.org/api?code=[redacted]&page=2"
    assert values["notify.chat.url"][0] == "https://hooks.slack.com/[redacted]"
    assert values["hooks[0].secret"] == ("[redacted]", "file", None)
    assert values["hooks[0].timeout"] == (2000, "default", None)


@requirement("CONSOLE-config-origins")
@pytest.mark.parametrize(
    ("value", "shown_as"),
    [  # none of these is one
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "[redacted]"),
        ("use sk-proj-abcdef0123456789 for that", "use [redacted] for that"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl", "[redacted]"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n", "[redacted]\n"),
        ("7f3a9c0e5b1d2846a7c9e0f1b2d3c4e5", "[redacted]"),
        ("pZ8qL2vX9rT4wK7m", "pZ8qL2vX9rT4wK7m"),
        ("pZ8qL2vX9rT4wK7mB3nC", "[redacted]"),
        ("curl -H 'Authorization: Bearer abcdefgh'", "curl -H 'Authorization: Bearer [redacted]'"),
        ("X-Api-Key: abc", "X-Api-Key: [redacted]"),
        ("DB_PASSWORD=abc exec server", "DB_PASSWORD=[redacted] exec server"),
        ("https://discord.com/api/webhooks/1/abc_def", "https://discord.com/[redacted]"),
        ("https://acme.webhook.office.com/webhookb2/1", "https://acme.webhook.office.com/[redacted]"),
        ("https://chat.example.org/hooks/42/pZ8qL2vX9rT4wK7mB3nC", "https://chat.example.org/hooks/42/[redacted]"),
        *(
            (plain, plain)
            for plain in (
                "metric",
                "Authorization: Bearer ${GH_TOKEN}",
                "GH_TOKEN=${GH_TOKEN} exec server",
                "Qwen2-72B-Instruct-GPTQ-Int4",
                "/opt/pZ8qL2vX9rT4wK7mB3nC/tools.py",
                "0b9e7a5c-43f1-4a53-8d0b-2f1f2d9f6c11",
                "The primary key: a number. MAX_TOKENS=4096",
                "https://api.example.org/v1/items?page=2",
            )
        ),
    ],
)
def test_what_looks_like_a_credential_is_hidden_under_any_key(tmp_path: Path, value: str, shown_as: str) -> None:
    settings = loaded(
        tmp_path,
        f"[agents.ada]\ninstructions = {json.dumps(value)}\n",
        environment={"GH_TOKEN": "x"},
    )
    assert shown(settings)["agents.ada.instructions"][0] == shown_as


@requirement("CONSOLE-config-origins")
def test_short_names_of_secrets_are_known() -> None:
    names = ("pwd", "db_pass", "pin", "dsn", "bearer", "sig")
    hidden = {**dict.fromkeys(names, "[redacted]"), "compass": "n"}
    assert for_show({**dict.fromkeys(names, "abc"), "compass": "n"}, "limits") == hidden


@requirement("CONSOLE-config-origins")
def test_after_a_reload_what_waits_for_a_restart_is_shown_as_it_is_in_force(tmp_path: Path) -> None:
    old = loaded(tmp_path, "[server]\nport = 1\n[store]\nkeep = 3\n[scenario]\nname = 'mine'\n")
    new = loaded(tmp_path, "[server]\nport = 2\n[store]\nkeep = 4\n")
    values = shown(in_force(old, new))
    assert values["server.port"] == (1, "file", None)
    assert values["store.keep"] == (4, "file", None)
    assert values["scenario.name"] == ("mine", "file", None)
