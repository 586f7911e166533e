"""What a config that is read anew changes."""

import re
from pathlib import Path

import msgspec
import pytest

from jackfield.settings import Settings, changes_between, in_force, load_again, load_settings
from jackfield.settings.changes import APPLIED_LIVE, NEEDS_RESTART, written
from jackfield.settings.digests import differing, table_digests
from tests.requirement import requirement

ENVIRONMENT = {"JACKFIELD_ADMIN_KEY": "key-of-the-admin"}


def settings_of(folder: Path, text: str, **environment: str) -> Settings:
    path = folder / "jackfield.toml"
    path.write_text(text)
    return load_settings(path, environment={**ENVIRONMENT, **environment})


@requirement("OP-reload-tables")
def test_every_field_is_applied_live_or_needs_a_restart() -> None:
    """Whoever adds a setting says which."""
    named: list[str] = []
    for field in msgspec.structs.fields(Settings):
        if field.name in APPLIED_LIVE | NEEDS_RESTART:
            named.append(field.name)
        else:
            named += [f"{field.name}.{inner.name}" for inner in msgspec.structs.fields(field.type)]
    assert not APPLIED_LIVE & NEEDS_RESTART
    assert sorted(named) == sorted(APPLIED_LIVE | NEEDS_RESTART)


@requirement("OP-reload-tables")
def test_the_documentation_has_the_same_two_tables() -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    live, restart = (
        text.partition("Applied live:")[2].partition("\nVariables of the environment")[0].split("Needs a restart")
    )
    not_in_the_file = {"JACKFIELD_DATA", "JACKFIELD_LOG", "the config's path"}
    assert named_in(live) == written(APPLIED_LIVE)
    assert named_in(restart) == written(NEEDS_RESTART) - not_in_the_file


def named_in(table: str) -> set[str]:
    """The settings in the first column."""
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_nothing_is_different_in_the_same_file(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[models.a]\nprovider = "openai"\nbase_url = "http://h/v1"\nmodel = "m"\n')
    changes = changes_between(settings, load_again(settings))
    assert not changes
    assert changes.restart_needed == ()


@requirement("OP-reload-answer")
def test_what_is_new_gone_different_or_waits_is_named(tmp_path: Path) -> None:
    old = settings_of(
        tmp_path,
        """
[server]
port = 8420
[auth.keys.ci]
key = "a key for ci"
[auth.keys.gone]
key = "another key"
[sources.github]
kind = "mcp"
url = "http://127.0.0.1:1/mcp"
""",
    )
    new = settings_of(
        tmp_path,
        """
[server]
port = 9000
cors_origins = ["https://app.example.org"]
[store]
keep = 7
[auth.keys.ci]
key = "a key for ci"
scopes = ["read"]
[sources.github]
kind = "mcp"
url = "http://127.0.0.1:1/mcp"
prefix = "gh_"
[models.fast]
provider = "openai"
base_url = "http://127.0.0.1:1/v1"
model = "m"
""",
    )
    changes = changes_between(old, new)
    assert changes.added == ("models.fast",)
    assert changes.removed == ("auth.keys.gone",)
    assert set(changes.changed) == {"server.cors_origins", "store.keep", "auth.keys.ci", "sources.github"}
    assert changes.restart_needed == ("server.port",)
    after = in_force(old, new)
    assert after.server.port == 8420
    assert after.server.cors_origins == ("https://app.example.org",)
    assert after.keep_days == 7


def test_a_port_that_the_system_chose_is_no_other_port(tmp_path: Path) -> None:
    read = settings_of(tmp_path, "[server]\nport = 0\n")
    running = msgspec.structs.replace(read, server=msgspec.structs.replace(read.server, port=54321))
    assert changes_between(running, load_again(running)).restart_needed == ()


def test_options_of_the_command_line_count_again(tmp_path: Path) -> None:
    path = tmp_path / "jackfield.toml"
    path.write_text("[server]\nport = 8420\n")
    started = load_settings(path, environment=ENVIRONMENT, overrides={"port": 9999, "store": "memory:"})
    again = load_again(started)
    assert again.server.port == 9999
    assert again.store_url == "memory:"


def test_a_source_whose_secret_has_another_value_is_another_source(tmp_path: Path) -> None:
    text = '[sources.local]\nkind = "files"\npath = "*.py"\nsecrets = ["TOKEN"]\n'
    old = settings_of(tmp_path, text, TOKEN="the first value")
    new = settings_of(tmp_path, text, TOKEN="the second value")
    assert changes_between(old, new).changed == ("sources.local",)


def test_secrets_that_are_gone_stay_out_of_what_is_shown(tmp_path: Path) -> None:
    text = '[auth.keys.ci]\nkey = "${CI_KEY}"\n'
    old = settings_of(tmp_path, text, CI_KEY="short-one")
    new = settings_of(tmp_path, text, CI_KEY="another-one")
    old.secrets.take(new.secrets)
    assert {"short-one", "another-one"} <= old.secrets.used
    assert old.secrets.get("CI_KEY") == "another-one"


@requirement("OP-reload-differs")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"auth": {"keys": {"ci": {"key": "a"}}}}, {"auth": {"keys": {"ci": {"key": "b"}}}}),
        ({"sources": {"s": {"headers": {"X": "a"}}}}, {"sources": {"s": {"headers": {"X": "b"}}}}),
        ({"sources": {"s": {"url": "http://u:p@h/"}}}, {"sources": {"s": {"url": "http://u:q@h/"}}}),
        ({"server": {"port": 1}}, {"server": {"port": 2}}),
    ],
)
def test_digests_know_no_secret_and_nothing_of_one_gateway_alone(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert table_digests(one) == table_digests(other)


@requirement("OP-reload-differs")
def test_digests_differ_by_table() -> None:
    one = table_digests({"models": {"a": {"api_key": "${A}"}}, "groups": {"g": {"tools": ["x"]}}})
    other = table_digests({"models": {"a": {"api_key": "${B}"}}, "agents": {}, "groups": {"g": {"tools": ["x"]}}})
    assert differing(one, other) == ("agents", "models")
