"""What the config may say of an MCP server."""

from typing import Any

import pytest

from jackfield.errors import ConfigError
from jackfield.sources.mcp.options import parse_options, parse_servers


def parsed(**options: Any) -> Any:
    return parse_options(options, where="sources.gh")


def test_the_transport_follows_from_what_is_given() -> None:
    assert parsed(url="https://mcp.example/mcp").carrier == "http"
    assert parsed(url="https://mcp.example/sse", transport="sse").carrier == "sse"
    assert parsed(command=["uvx", "mcp-server-git"]).carrier == "stdio"
    assert parsed(command="npx", args=["-y", "server"]).argv == ("npx", "-y", "server")
    foreign = parsed(transport="pigeon", url="pigeon://north", options={"loft": 1})
    assert (foreign.carrier, foreign.for_plugin) == ("pigeon", {"url": "pigeon://north", "loft": 1})


def test_the_servers_place_is_shown_without_what_may_be_secret() -> None:
    assert parsed(url="https://mcp.example/mcp?key=s3cret#x").server == "https://mcp.example/mcp"
    assert parsed(command=["/opt/bin/git-server", "--token", "s3cret"]).server == "stdio:git-server"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, 'sources.gh needs a url, or a command = ["…"] to start. Add one of them.'),
        ({"url": "ftp://x"}, "sources.gh.url is invalid. "),
        ({"url": "https://u:p@mcp.example"}, "sources.gh.url has a user or password in it. Put them into headers."),
        ({"url": "https://a.example", "command": ["x"]}, "sources.gh has both a url and a command. "),
        ({"url": "https://a.example", "command": ["x"], "transport": "http"}, "sources.gh has a command, which"),
        ({"url": "https://a.example", "options": {"a": 1}}, "sources.gh.options are for transports of other packages"),
        ({"transport": "stdio"}, 'sources.gh needs a command for transport "stdio".'),
        ({"command": []}, 'sources.gh needs a command for transport "stdio".'),
        ({"command": ["x"], "headers": {"a": "b"}}, "sources.gh.headers mean nothing to a process."),
        ({"command": ["x"], "env": {"A=B": "c"}}, "sources.gh.env has 'A=B', which is not a valid variable name."),
        ({"url": "https://a.example", "headers": {"a b": "c"}}, "sources.gh: headers has 'a b', which cannot be set."),
        ({"url": "https://a.example", "headers": {"a": "s3\ncret"}}, "sources.gh: the value of the header 'a'"),
        ({"url": "https://a.example", "connect_timeout": 0}, "sources.gh.connect_timeout is invalid: "),
        ({"url": "https://a.example", "alowed_tools": ["a"]}, "sources.gh has an unknown key 'alowed_tools'. Did you"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_key_and_cure(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(options, where="sources.gh")
    assert str(caught.value).startswith(sentence) or sentence in str(caught.value)
    assert "s3" not in str(caught.value)


def test_the_seeds_servers_are_options_by_name() -> None:
    seed = {
        "servers": [
            {
                "name": "github-tools",
                "url": "https://mcp.github.com",
                "transport": "http",
                "allowedTools": ["list_prs", "create_issue"],
            }
        ]
    }
    [(name, options)] = parse_servers(seed, where="agents.a.mcp").items()
    assert name == "github-tools"
    assert (options.url, options.carrier) == ("https://mcp.github.com", "http")
    assert options.allowed_tools == ("list_prs", "create_issue")


@pytest.mark.parametrize(
    ("mcp", "sentence"),
    [
        ({"server": []}, "agents.a.mcp has an unknown key 'server'."),
        ({"servers": [{"url": "https://a.example"}]}, "agents.a.mcp.servers[0] needs the key 'name'."),
        ({"servers": [{"name": "a", "uri": "https://a.example"}]}, "agents.a.mcp.servers[0] has an unknown key 'uri'."),
        (
            {"servers": [{"name": "a", "url": "https://a.example"}, {"name": "a", "url": "https://b.example"}]},
            "agents.a.mcp.servers[1]: two servers are called 'a'. Rename one of them.",
        ),
    ],
)
def test_a_servers_list_that_cannot_be_used_is_said_with_its_place(mcp: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_servers(mcp, where="agents.a.mcp")
    assert str(caught.value).startswith(sentence)
