import json
from pathlib import Path

import pytest

from jackfield.errors import ConfigError
from jackfield.settings import Secrets, Settings, load_settings
from tests.requirement import requirement

TOOL = """
[[tools]]
name = "confirmAction"
description = "Ask the user to confirm an action"
inputSchema = { type = "object", properties = { question = { type = "string" } }, required = ["question"] }
executionType = "internal"
"""


def load(folder: Path, text: str, *, name: str = "jackfield.toml", **environment: str) -> Settings:
    (folder / name).write_text(text)
    return load_settings(folder / name, environment=environment)


def plain(settings: Settings) -> dict[str, object]:
    left_out = {"origin", "path", "secrets"}
    return {name: getattr(settings, name) for name in settings.__struct_fields__ if name not in left_out}


@requirement("CON-config-toml-json")
def test_toml_and_json_with_the_same_keys_mean_the_same(tmp_path: Path) -> None:
    toml = """
        [server]
        port = 9000
        [scenario]
        name = "demo"
        [[categories]]
        id = "travel"
        name = "Travel"
        [auth.keys.ops]
        key = "abcdefgh"
        scopes = ["admin"]
        [sources.local]
        kind = "files"
        path = "tools/*.py"
        [sources.local.tools.hello]
        timeout = 20
        metadata = { requires_approval = true }
    """
    same = {
        "server": {"port": 9000},
        "scenario": {"name": "demo"},
        "categories": [{"id": "travel", "name": "Travel"}],
        "auth": {"keys": {"ops": {"key": "abcdefgh", "scopes": ["admin"]}}},
        "sources": {
            "local": {
                "kind": "files",
                "path": "tools/*.py",
                "tools": {"hello": {"timeout": 20, "metadata": {"requires_approval": True}}},
            }
        },
    }
    from_toml = load(tmp_path, toml)
    from_json = load(tmp_path, json.dumps(same), name="jackfield.json")
    assert plain(from_toml) == plain(from_json)
    assert from_toml.sources[0].tools["hello"].metadata == {"requires_approval": True}


@pytest.mark.parametrize("spelling", [("inputSchema", "executionType"), ("input_schema", "execution_type")])
def test_a_tools_keys_are_taken_in_camel_and_in_snake_case(tmp_path: Path, spelling: tuple[str, str]) -> None:
    text = TOOL.replace("inputSchema", spelling[0]).replace("executionType", spelling[1])
    tool = load(tmp_path, text).tools[0]
    assert tool.input_schema["required"] == ["question"]


@requirement("CON-config-secrets")
def test_a_variable_is_read_from_the_environment_and_then_from_the_secrets_file(tmp_path: Path) -> None:
    (tmp_path / ".jackfield").mkdir()
    (tmp_path / ".jackfield" / "secrets.toml").write_text('ONE = "file-one"\nTWO = "file-two"\n')
    text = """
        [auth.keys.a]
        key = "${ONE}"
        [auth.keys.b]
        key = "x-${TWO}-y"
    """
    settings = load(tmp_path, text, ONE="environment-one")
    assert settings.keys["a"].key == "environment-one"
    assert settings.keys["b"].key == "x-file-two-y"
    assert settings.secrets.used == {"environment-one", "file-two"}


@requirement("CON-config-relative-paths")
def test_relative_paths_start_at_the_configs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    settings = load(project, "")
    assert settings.folder == project
    assert settings.data == project / ".jackfield"
    assert load(project, "", JACKFIELD_DATA="kept").data == project / "kept"


def test_the_environment_overrides_the_file_and_the_command_line_both(tmp_path: Path) -> None:
    (tmp_path / "jackfield.toml").write_text('[server]\nhost = "127.0.0.2"\nport = 1\n')
    environment = {"JACKFIELD_PORT": "2", "JACKFIELD_STORE": "memory:"}
    settings = load_settings(tmp_path / "jackfield.toml", environment=environment, overrides={"port": 3})
    assert (settings.server.host, settings.server.port, settings.store_url) == ("127.0.0.2", 3, "memory:")
    assert load_settings(tmp_path, environment=environment).server.port == 2
    assert load_settings(tmp_path, environment=environment, overrides={"port": 0}).server.port == 0


def test_without_a_config_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(environment={})
    assert settings.path is None
    assert settings.url == "http://127.0.0.1:8420"
    assert settings.large_result == 1_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nprot = 1", ["unknown key 'prot'", "Did you mean 'port'?"]),
        ("[servr]", ["unknown key 'servr'", "Did you mean 'server'?"]),
        ('[server]\nport = "x"', ["server.port", "expected `int`"]),
        ("[server]\nport = 70000", ["70000", "65535"]),
        ("[server\n", ["not valid TOML", "line 1"]),
        ("[store]\nlarge_result = -1", ["store.large_result", ">= 0"]),
        ('[auth.keys.a]\nkey = "k"\nscopes = ["root"]', ["auth.keys.a.scopes", "'root'", "Known: admin"]),
        ('[auth.keys.a]\nscopes = ["call"]', ["auth.keys", "needs the key 'key'"]),
        ('[auth.keys.a]\nkey = ""', ["auth.keys.a.key is empty"]),
        ('[auth.keys.a]\nkey = "${NOWHERE}"', ["auth.keys.a.key", "${NOWHERE}", "secrets.toml"]),
        ("[sources.x]\npath = 'a'", ["sources.x needs a kind"]),
        ("[sources.http]\nkind = 'files'", ["sources.http", "is a reserved name"]),
        ("[sources.'a b']\nkind = 'files'", ["sources.a b", "Rename"]),
        ("[sources.x]\nkind = 'files'\n[sources.x.tools.t]\ntimout = 1", ["tools.t", "'timout'", "timeout"]),
        (
            "[sources.x]\nkind = 'files'\n[sources.x.tools.t]\nmetadata = { idempotnt = true }",
            ["tools.t.metadata", "'idempotnt'", "idempotent"],
        ),
        (TOOL.replace("internal", "magic"), ["confirmAction", "execution_type"]),
        (TOOL.replace('type = "object", properties', 'type = "string", properties'), ["must describe an object"]),
        (TOOL.replace("description", "descripton"), ["confirmAction", "'descripton'"]),
        ('[server]\npublic_url = "nowhere"', ["public_url", "full URL"]),
        ('[scenario]\nversion = "2"', ["scenario.version", "not a semantic version", "1.0.0"]),
    ],
)
def test_a_config_that_cannot_be_used_is_one_sentence_of_file_key_and_cure(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    with pytest.raises(ConfigError) as fault:
        load(tmp_path, text)
    for words in said:
        assert words in str(fault.value)
    assert "\n" not in str(fault.value).replace(str(tmp_path), "")


def test_a_config_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jackfield init"):
        load_settings(tmp_path / "none.toml", environment={})


def test_an_unknown_log_format_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'text' or 'json'"):
        load(tmp_path, "", JACKFIELD_LOG="xml")


def test_what_happens_to_changed_tools_is_the_operators_word_for_each_source(tmp_path: Path) -> None:
    text = '[sources.a]\nkind = "mcp"\n[sources.b]\nkind = "mcp"\non_change = "accept"\n'
    sources = load(tmp_path, text).sources
    assert [(source.accepts_changes, source.options) for source in sources] == [(False, {}), (True, {})]
    with pytest.raises(ConfigError, match=r"sources\.b\.on_change is 'ask'; it takes 'hold' or 'accept'"):
        load(tmp_path, text.replace('"accept"', '"ask"'))


def test_a_model_of_the_environment_is_the_default_one_and_needs_nothing_else(tmp_path: Path) -> None:
    text = '[models.demo]\nprovider = "scripted"\nscript = "x.toml"\n'
    text += '[models.default]\nprovider = "openai"\nmodel = "other"\n'
    given = load(tmp_path, text, JACKFIELD_MODEL_URL="http://127.0.0.1:1/v1").models
    assert list(given) == ["demo", "default"]
    assert given["default"] == {"provider": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "default"}
    environment = {
        "JACKFIELD_MODEL_URL": "https://m/v1",
        "JACKFIELD_MODEL": "m1",
        "JACKFIELD_MODEL_KEY": "sk-0001-0001",
    }
    whole = load(tmp_path, "", **environment)
    assert whole.models["default"]["model"] == "m1"
    assert whole.models["default"]["api_key"] == "sk-0001-0001"
    assert "sk-0001-0001" in whole.secrets.used  # so that it is redacted
    assert load(tmp_path, text).models["default"]["model"] == "other"


@pytest.mark.parametrize("environment", [{"JACKFIELD_MODEL": "m1"}, {"JACKFIELD_MODEL_URL": "localhost:8000/v1"}])
def test_a_model_of_the_environment_that_cannot_be_reached_is_said(tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="JACKFIELD_MODEL_URL is"):
        load(tmp_path, "", **environment)


def test_secrets_that_are_learned_are_known_until_there_are_very_many() -> None:
    secrets = Secrets({"ONE": "given-one"}, {})
    assert secrets.get("ONE") == "given-one"
    for number in range(60):
        secrets.note(f"short-{number}")
    secrets.note("given-one", "a-token-that-is-long-enough")
    assert "given-one" in secrets.used
    assert "short-59" in secrets.used
    assert "short-0" not in secrets.used
    assert len(secrets.tokens) == 1
