"""Other programs' MCP servers in our words: shapes, names, secrets, variables, and the config they are written to."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from jackfield.cli.files import json_document, without_comments
from jackfield.cli.import_ import Import, ImportedSource, read_servers, servers_in, toml_of, with_sources
from jackfield.cli.options import UsageError
from jackfield.sources.mcp.options import parse_options

FOLDER = Path("/home/ada/project")


def taken_over(servers: dict[str, Any], *, taken: tuple[str, ...] = ()) -> Import:
    return read_servers(servers, taken=frozenset(taken), folder=FOLDER)


def one(server: dict[str, Any], name: str = "acme") -> dict[str, Any]:
    [source] = taken_over({name: server}).sources
    return source.options


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"a": {"command": "x"}}},
        {"servers": {"a": {"command": "x"}}, "inputs": []},
        {"mcp": {"servers": {"a": {"command": "x"}}}, "editor.fontSize": 12},
    ],
)
def test_servers_are_found_where_each_program_keeps_them(document: dict[str, Any]) -> None:
    assert servers_in(document, Path("f")) == {"a": {"command": "x"}}


def test_a_file_without_servers_is_said() -> None:
    with pytest.raises(UsageError, match="f has no MCP servers"):
        servers_in({"mcpServers": []}, Path("f"))


@pytest.mark.parametrize(
    ("server", "options"),
    [
        (
            {"command": "npx", "args": ["-y", "server"], "env": {"DEBUG": "1", "LEVEL": 3, "ON": True}, "cwd": "sub"},
            {
                "kind": "mcp",
                "command": ["npx", "-y", "server"],
                "cwd": "sub",
                "env": {"DEBUG": "1", "LEVEL": "3", "ON": "true"},
            },
        ),
        ({"type": "stdio", "command": "x"}, {"kind": "mcp", "command": ["x"]}),
        (
            {"url": "https://a.example/mcp"},
            {"kind": "mcp", "url": "https://a.example/mcp", "transport": "http"},
        ),
        (
            {"type": "http", "url": "https://a.example/mcp", "headers": {"X-Region": "eu"}},
            {"kind": "mcp", "url": "https://a.example/mcp", "transport": "http", "headers": {"X-Region": "eu"}},
        ),
        (
            {"type": "streamable-http", "url": "https://a.example/sse"},
            {"kind": "mcp", "url": "https://a.example/sse", "transport": "http"},
        ),
        (
            {"type": "sse", "url": "https://a.example/x"},
            {"kind": "mcp", "url": "https://a.example/x", "transport": "sse"},
        ),
        ({"url": "https://a.example/sse"}, {"kind": "mcp", "url": "https://a.example/sse", "transport": "sse"}),
        ({"serverUrl": "https://a.example"}, {"kind": "mcp", "url": "https://a.example", "transport": "http"}),
    ],
)
def test_every_shape_becomes_options_that_a_source_takes(server: dict[str, Any], options: dict[str, Any]) -> None:
    assert one(server) == options
    parse_options({key: value for key, value in options.items() if key != "kind"}, where="sources.acme")


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ("npx", "Server 'a' must be an object"),
        ({}, "neither a command nor a url"),
        ({"command": ""}, "has no command"),
        ({"command": "x", "args": "y"}, "has no command"),
        ({"command": "x", "env": ["A=1"]}, "'env' of server 'a' must be an object of strings"),
        ({"command": "x", "env": {"A": {}}}, "'env.A' of server 'a' must be a string"),
        ({"type": "carrier-pigeon", "url": "https://a.example"}, "has the type 'carrier-pigeon'"),
    ],
)
def test_a_server_that_cannot_be_read_is_said_by_name(server: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        taken_over({"a": server})


def test_names_become_names_of_sources_and_a_taken_one_is_refused() -> None:
    [source] = taken_over({"My Server (beta)!": {"command": "x"}}).sources
    assert source.name == "My-Server-beta"
    with pytest.raises(UsageError, match=r"The name 'a' is taken by a source of the config\. Rename the server 'a'"):
        taken_over({"a": {"command": "x"}}, taken=("a",))
    with pytest.raises(UsageError, match="The name 'a-b' is taken by the server 'a b'"):
        taken_over({"a b": {"command": "x"}, "a-b": {"command": "x"}})
    for name in ("builtin", "???"):
        with pytest.raises(UsageError, match="cannot be a source's name"):
            taken_over({name: {"command": "x"}})


def test_what_is_switched_off_or_means_nothing_here_is_told() -> None:
    imported = taken_over(
        {"off": {"command": "x", "disabled": True}, "on": {"command": "x", "envFile": ".env", "oauth": {}}}
    )
    assert [source.name for source in imported.sources] == ["on"]
    assert imported.notes == (
        "'off' is disabled and was skipped.",
        "'on': envFile, oauth not supported and skipped.",
    )


def test_this_gateway_itself_is_left_out() -> None:
    servers = {
        "by_url": {"url": "http://localhost:8420/mcp/"},
        "by_bridge": {"command": "/usr/bin/jackfield", "args": ["mcp"]},
        "other": {"url": "http://localhost:8421/mcp"},
    }
    imported = read_servers(
        servers, taken=frozenset(), folder=FOLDER, own_urls=frozenset({"http://localhost:8420/mcp"})
    )
    assert [source.name for source in imported.sources] == ["other"]
    assert imported.notes[0] == "'by_url' is this gateway and was skipped."


SECRET = "s3cr3t-value-0001"


@pytest.mark.parametrize(
    ("server", "key", "written", "variable"),
    [
        ({"command": "x", "env": {"GITHUB_TOKEN": SECRET}}, "env", {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}, "GITHUB_TOKEN"),
        ({"command": "x", "env": {"PLAIN": "ghp_0123456789ab"}}, "env", {"PLAIN": "${PLAIN}"}, "PLAIN"),
        (
            {"command": "x", "env": {"DATABASE_URL": f"postgres://ada:{SECRET}@db/x"}},
            "env",
            {"DATABASE_URL": "postgres://ada:${ACME_PASSWORD}@db/x"},
            "ACME_PASSWORD",
        ),
        (
            {"url": "https://a.example", "headers": {"Authorization": f"Bearer {SECRET}"}},
            "headers",
            {"Authorization": "Bearer ${ACME_AUTHORIZATION}"},
            "ACME_AUTHORIZATION",
        ),
        (
            {"url": "https://a.example", "headers": {"X-Api-Key": SECRET}},
            "headers",
            {"X-Api-Key": "${ACME_X_API_KEY}"},
            "ACME_X_API_KEY",
        ),
        (
            {"url": f"https://a.example/mcp?region=eu&api_key={SECRET}"},
            "url",
            "https://a.example/mcp?region=eu&api_key=${ACME_API_KEY}",
            "ACME_API_KEY",
        ),
        (
            {"command": "x", "args": ["--api-key", SECRET, "--region", "europe"]},
            "command",
            ["x", "--api-key", "${ACME_API_KEY}", "--region", "europe"],
            "ACME_API_KEY",
        ),
        ({"command": "x", "args": [f"--token={SECRET}"]}, "command", ["x", "--token=${ACME_TOKEN}"], "ACME_TOKEN"),
        (
            {"command": "npx", "args": ["mcp-remote", "--header", f"Authorization: Bearer {SECRET}"]},
            "command",
            ["npx", "mcp-remote", "--header", "Authorization: Bearer ${ACME_AUTHORIZATION}"],
            "ACME_AUTHORIZATION",
        ),
        (
            {"command": "docker", "args": ["run", "-e", f"GITHUB_TOKEN={SECRET}"]},
            "command",
            ["docker", "run", "-e", "GITHUB_TOKEN=${GITHUB_TOKEN}"],
            "GITHUB_TOKEN",
        ),
        (
            {"command": "x", "args": [f"https://a.example?token={SECRET}"]},
            "command",
            ["x", "https://a.example?token=${ACME_TOKEN}"],
            "ACME_TOKEN",
        ),
        ({"command": "x", "args": ["sk-0123456789"]}, "command", ["x", "${ACME_KEY}"], "ACME_KEY"),
    ],
)
def test_a_value_that_looks_like_a_secret_is_not_copied(
    server: dict[str, Any], key: str, written: Any, variable: str
) -> None:
    imported = taken_over({"acme": server})
    [source] = imported.sources
    assert source.options[key] == written
    assert list(imported.variables) == [variable]
    assert SECRET not in repr(imported)


def test_what_is_no_secret_is_copied() -> None:
    env = {
        "MAX_TOKENS": "200000",
        "TOKEN_LIMIT": "unlimited",
        "KEY_FILE": "/etc/keys/a.pem",
        "AUTH_URL": "https://login.example",
        "USE_TOKEN": "true",
        "HOME": "/home/ada",
    }
    imported = taken_over({"a": {"command": "x", "args": ["--keyboard=german", "/tmp/token"], "env": env}})
    assert imported.sources[0].options["env"] == env
    assert imported.sources[0].options["command"] == ["x", "--keyboard=german", "/tmp/token"]
    assert imported.variables == {}


def test_two_secrets_under_one_name_get_two_names_and_one_secret_only_one() -> None:
    servers = {
        "a": {"command": "x", "env": {"TOKEN": "first-secret"}},
        "b": {"command": "x", "env": {"TOKEN": "other-secret"}},
        "c": {"command": "x", "env": {"TOKEN": "first-secret"}},
    }
    imported = taken_over(servers)
    assert [source.options["env"]["TOKEN"] for source in imported.sources] == ["${TOKEN}", "${B_TOKEN}", "${TOKEN}"]
    assert list(imported.variables) == ["TOKEN", "B_TOKEN"]


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ("${TOKEN}", "${TOKEN}", "a variable in that file"),
        ("${env:TOKEN}", "${TOKEN}", "a variable in that file"),
        ("${TOKEN:-5432}", "${TOKEN}", "a variable in that file, with the default '5432'"),
        (f"${{TOKEN:-{SECRET}}}", "${TOKEN}", "a variable in that file"),
        ("${input:github-token}", "${GITHUB_TOKEN}", "the input 'github-token' in that file"),
        ("${workspaceFolder}/data", "/home/ada/project/data", None),
    ],
)
def test_variables_are_written_our_way(theirs: str, ours: str, told: str | None) -> None:
    imported = taken_over({"a": {"command": "x", "env": {"TOKEN": theirs}}})
    assert imported.sources[0].options["env"] == {"TOKEN": ours}
    assert list(imported.variables.values()) == ([] if told is None else [told])


def test_a_variable_that_we_cannot_have_stays_and_is_told() -> None:
    imported = taken_over({"a": {"command": "x", "args": ["${command:pick}"]}})
    assert imported.sources[0].options["command"] == ["x", "${command:pick}"]
    assert imported.notes == ("${command:pick} is not supported and was left as it is.",)


def test_toml_holds_any_text() -> None:
    odd = 'a "b" \\ c\n\t\x00\x1f\x7f ü😀 ${X}'
    source = ImportedSource(
        name="a", options={"kind": "mcp", "command": [odd], "env": {"A": odd, "B C": "x"}, "headers": {odd: odd}}
    )
    assert tomllib.loads(toml_of(source)) == {"sources": {"a": source.options}}


SOURCE = ImportedSource(name="a", options={"kind": "mcp", "url": "https://a.example", "transport": "http"})


def test_what_was_in_the_config_stays_word_for_word() -> None:
    before = "# mine\n[server]\nport = 1   # here\n\n[[tools]]\nname = 'x'"
    after = with_sources(before, tomllib.loads(before), [SOURCE], path=Path("jackfield.toml"), origin=".mcp.json")
    assert after == (
        before + '\n\n# from .mcp.json\n[sources.a]\nkind = "mcp"\nurl = "https://a.example"\ntransport = "http"\n'
    )


def test_a_config_that_nothing_can_be_added_to_is_refused() -> None:
    before = 'sources = { b = { kind = "files" } }\n'
    with pytest.raises(UsageError, match="Write each as its own table"):
        with_sources(before, tomllib.loads(before), [SOURCE], path=Path("jackfield.toml"), origin="f")


def test_a_json_config_is_added_to_as_json() -> None:
    before = '{"server": {"port": 1}}'
    after = with_sources(before, json.loads(before), [SOURCE], path=Path("jackfield.json"), origin="f")
    assert json.loads(after) == {"server": {"port": 1}, "sources": {"a": SOURCE.options}}


def test_an_editors_comments_and_last_commas_are_read() -> None:
    text = '{ // one\n "a": "x // no", /* two\n three */ "b": [1, 2,], "c": "quote\\" /* no */",\n}'
    assert json.loads(without_comments(text)) == {"a": "x // no", "b": [1, 2], "c": 'quote" /* no */'}


@pytest.mark.parametrize("text", ["", "{", "[]", "nul", '{"a": 1} x', "[" * 100_000])
def test_broken_json_is_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="Correct it; nothing was changed"):
        json_document(text, Path("f"), comments=True)
