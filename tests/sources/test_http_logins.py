"""`execution.connection`: HTTP tools that use a source's login."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jackfield.errors import ConfigError, LoginNeeded
from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.tool import ExecutionType, HttpExecution, Tool
from jackfield.outgoing import Outgoing
from jackfield.settings import load_settings
from jackfield.sources.http import HttpSource
from tests.harness.in_process import in_process_gateway, make_gateway
from tests.requirement import requirement
from tests.sources.invocations import invocation_of
from tests.sources.logins import Logins
from tests.sources.upstream import Received, Upstream, json_reply, redirect, reply

GITHUB = """\
[sources.github]
kind = "mcp"
url = "https://mcp.github.example/mcp"
auth = "user"
"""


def tool_at(url: str, **headers: str) -> Tool:
    execution = HttpExecution(url=url, headers=headers, connection="github")
    return Tool(source="http", name="issue", execution_type=ExecutionType.GATEWAY, execution=execution)


def guarded(request: Received) -> bytes:
    if request.headers.get("authorization") != "Bearer token-of-ann":
        return reply(401, b"", www_authenticate="Bearer")
    return json_reply({"headers": request.headers})


async def call(tool: Tool, logins: Logins, principal: str, outgoing: Outgoing) -> Outcome:
    source = HttpSource((tool,), outgoing, logins)
    return await source.execute(replace(invocation_of(tool), principal=principal))


@requirement("ID-upstream-connection")
async def test_a_tool_over_http_uses_the_login_of_its_connection() -> None:
    logins = Logins("github", ann="old-token-ann")
    logins.of_principal["ann"].fresh = "token-of-ann"
    async with Upstream() as server, Outgoing() as outgoing:
        server.answers["/issues"] = guarded
        tool = tool_at(f"{server.url}/issues", authorization="Bearer of-the-template")
        outcome = await call(tool, logins, "ann", outgoing)
        assert isinstance(outcome, Done)
        assert [one.headers["authorization"] for one in server.received] == [
            "Bearer old-token-ann",
            "Bearer token-of-ann",
        ]
        with pytest.raises(LoginNeeded):
            await call(tool, logins, "bob", outgoing)
        assert len(server.received) == 2
        gone = replace(tool, execution=HttpExecution(url=f"{server.url}/issues", connection="gone"))
        failed = await call(gone, logins, "ann", outgoing)
        assert isinstance(failed, Failed)


@requirement("ID-upstream-no-login-elsewhere")
async def test_a_redirect_does_not_take_the_login_along() -> None:
    logins = Logins("github", ann="token-of-ann")
    async with Upstream() as server, Upstream() as elsewhere, Outgoing(allow=("127.0.0.1",)) as outgoing:
        elsewhere.answers["/"] = json_reply({})
        server.answers["/issues"] = redirect(f"{elsewhere.url}/", 307)
        await call(tool_at(f"{server.url}/issues"), logins, "ann", outgoing)
        assert len(elsewhere.received) == 1
        assert "authorization" not in elsewhere.received[0].headers


def config_of(execution: dict[str, Any], sources: str = GITHUB) -> str:
    tool = 'name = "issue"\ndescription = "x"\nexecutionType = "gateway"\ninputSchema = { type = "object" }\n'
    written = ", ".join(f"{key} = {msgspec.json.encode(value).decode()}" for key, value in execution.items())
    return f"{sources}[[tools]]\n{tool}execution = {{ {written} }}\n"


@requirement("ID-upstream-connection")
@pytest.mark.parametrize(
    ("connection", "sources", "said"),
    [
        ("gitlab", GITHUB, "which is not in [sources]. Sources with a login: github."),
        ("github", GITHUB.replace('auth = "user"\n', ""), 'Add auth = "shared" or auth = "user" to [sources.github]'),
    ],
)
def test_a_connection_that_there_is_not_is_a_config_error(
    tmp_path: Path, connection: str, sources: str, said: str
) -> None:
    path = tmp_path / "jackfield.toml"
    path.write_text(config_of({"url": "https://api.example/x", "connection": connection}, sources))
    with pytest.raises(ConfigError) as fault:
        load_settings(path, environment={})
    assert said in fault.value.message


@requirement("ID-upstream-connection")
async def test_a_tool_of_the_api_names_a_source_with_a_login_or_is_refused(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, GITHUB) as (_, client):
        made = {"name": "issue", "description": "x", "executionType": "gateway", "inputSchema": {"type": "object"}}
        wrong = {**made, "execution": {"url": "https://api.example/x", "connection": "gitlab"}}
        refused = await client.post("/api/v1/tools", json=wrong)
        assert refused.status_code == 400
        assert "Sources with a login: github." in refused.text
        for url in ("https://evil.example/x", "http://mcp.github.example/x", "https://mcp.github.example:8443/x"):
            thief = {**made, "execution": {"url": url, "connection": "github"}}
            refused = await client.post("/api/v1/tools", json=thief)
            assert refused.status_code == 400
            assert "takes logins of 'github' to another server" in refused.text
        right = {**made, "execution": {"url": "https://mcp.github.example/x/{id}", "connection": "github"}}
        assert (await client.post("/api/v1/tools", json=right)).status_code == 201


@requirement("ID-upstream-config")
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('kind = "mcp"\ncommand = ["server"]', "Remove it."),
        ('kind = "files"\npath = "tools"', "Remove it."),
        ('kind = "manifest"\nurl = "https://x.example"', "makes no requests that a login could go with"),
        ('kind = "skills"\npath = "skills"', "Remove it."),
        (
            'kind = "mcp"\nurl = "https://x.example"\nheaders = { authorization = "x" }',
            "both auth and headers set 'Authorization'",
        ),
    ],
)
async def test_a_source_that_cannot_have_a_login_is_a_config_error(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(ConfigError) as fault:
        make_gateway(tmp_path, f'[sources.x]\n{source}\nauth = "user"\n')
    assert said in fault.value.message
    assert "sources.x" in fault.value.message
