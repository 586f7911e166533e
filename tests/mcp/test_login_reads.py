"""Reads, prompts and completion of a source that wants a login do not wait: the error has the link."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from jackfield.errors import LoginNeeded
from jackfield.model.principal import Principal
from jackfield.protocol.mcp import URL_REQUIRED
from tests.mcp.library import library
from tests.mcp.scene import Scene, mcp_scene
from tests.mcp.test_reading import config, listed
from tests.requirement import requirement

LINK = "https://gw.example/connect/login_1"
CALLER = "caller-key"


@asynccontextmanager
async def hidden_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """A server whose login has ended since it was listed."""
    async with library() as shelf, mcp_scene(folder, config=config(shelf)) as scene:
        await listed(scene)
        registry = scene.gateway.source_registry

        async def refuse(source: str, *_: Any) -> NoReturn:
            raise LoginNeeded(f"Source '{source}' needs a login.", source=source, principal="caller")

        async def link(source: str, principal: Principal) -> str | None:
            return LINK if (source, principal.name) == ("docs", "caller") else None

        monkeypatch.setattr(registry, "execute", refuse)
        monkeypatch.setattr(registry, "complete", refuse)
        monkeypatch.setattr(scene.gateway._executor.login_waits, "_open_link", link)
        yield scene


@requirement("ID-login-reads")
async def test_over_http_a_read_is_refused_with_the_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hidden_library(tmp_path, monkeypatch) as scene:
        key = {"x-api-key": CALLER}
        for answer in (
            await scene.http.get("/api/v1/resources/read?uri=note://one", headers=key),
            await scene.http.post("/api/v1/prompts/review", json={"arguments": {"code": "x"}}, headers=key),
        ):
            assert answer.status_code == 409, answer.text
            error = answer.json()["error"]
            assert (error["code"], error["source"], error["login_url"]) == ("login_needed", "docs", LINK)
            assert LINK in error["message"]
        waiting = await scene.http.get("/api/v1/calls?status=pending_login", headers={"x-api-key": CALLER})
        assert waiting.json()["calls"] == [], "no row waits for a read"


@requirement("ID-login-reads")
async def test_on_mcp_the_error_has_the_link_or_is_the_one_for_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hidden_library(tmp_path, monkeypatch) as scene:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("resources/read", {"uri": "note://one"}),
            ("prompts/get", {"name": "review", "arguments": {"code": "x"}}),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "code", "value": "x"}},
            ),
        ]
        session = await scene.shake_hands(key=CALLER, capabilities={"elicitation": {"url": {}}})
        for method, params in asked:
            headers = {"mcp-name": str(params["uri"])} if "uri" in params else {}
            modern = (await scene.ask(method, params, key=CALLER, headers=headers)).json()["error"]
            assert modern["data"] == {"code": "login_needed", "source": "docs", "login_url": LINK}, method
            body = {"jsonrpc": "2.0", "id": 3, "method": method, "params": params}
            error = (await scene.post(body, key=CALLER, headers=session)).json()["error"]
            assert error["code"] == URL_REQUIRED
            assert [one["url"] for one in error["data"]["elicitations"]] == [LINK]
        other = (await scene.ask("prompts/get", asked[1][1])).json()["error"]
        assert other["data"] == {"code": "login_needed"}, "no link for who may not make that login"
