"""MCP Apps: `ui://` resources and `_meta.ui` pass through; tools for apps only are for clients that show apps."""

from pathlib import Path
from typing import Any

import mcp.types as t

from tests.mcp.library import Library, library
from tests.mcp.scene import Scene, mcp_scene
from tests.mcp.test_reading import config, listed
from tests.requirement import requirement

PAGE = "ui://weather/view.html"
APP = {"ui": {"resourceUri": PAGE, "csp": {"connectDomains": ["https://example.org"]}}}
APP_TYPE = "text/html;profile=mcp-app"
SHOWS_APPS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [APP_TYPE]}}}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


class AppServer(Library):
    """A server with an app, and a tool that only the app calls."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.declared: list[Any] = []
        self.texts = {PAGE: f"<html>{name}</html>"}

    async def list_tools(self, ctx: Any, _params: Any) -> t.ListToolsResult:
        self.declared.append(ctx)
        shown = t.Tool(name="forecast", input_schema=NOTHING, _meta=APP)
        hidden = t.Tool(name="refresh_view", input_schema=NOTHING, _meta={"ui": {**APP["ui"], "visibility": ["app"]}})
        return t.ListToolsResult(tools=[shown, hidden])


async def tools(scene: Scene, capabilities: dict[str, Any]) -> dict[str, Any]:
    meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
    found = (await scene.ask("tools/list", meta=meta)).json()["result"]["tools"]
    return {tool["name"]: tool for tool in found}


@requirement("MCP2-apps")
async def test_apps_reach_clients_that_show_them(tmp_path: Path) -> None:
    async with library(made=AppServer("one")) as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        found = await tools(scene, SHOWS_APPS)
        assert found["forecast"]["_meta"] == APP, "unchanged"
        assert "refresh_view" in found
        without = await tools(scene, {})
        assert "forecast" in without
        assert "refresh_view" not in without, "no model is to see what only the app calls"
        read = await scene.ask("resources/read", {"uri": PAGE}, headers={"mcp-name": PAGE})
        assert read.json()["result"]["contents"][0]["text"] == "<html>one</html>"
        declared = (await scene.ask("server/discover")).json()["result"]["capabilities"]["extensions"]
        assert "io.modelcontextprotocol/ui" in declared


async def test_two_apps_of_the_same_uri_keep_apart(tmp_path: Path) -> None:
    async with library(made=AppServer("one")) as one, library(made=AppServer("two")) as two:
        both = config(one, "one") + config(two, "two", more='prefix = "two_"')
        async with mcp_scene(tmp_path, config=both) as scene:
            await listed(scene, at_least=2)
            found = await tools(scene, SHOWS_APPS)
            pages = [found[name]["_meta"]["ui"]["resourceUri"] for name in ("forecast", "two_forecast")]
            assert pages == [PAGE, "jackfield://two/ui%3A%2F%2Fweather%2Fview.html"]
            read = await scene.ask("resources/read", {"uri": pages[1]}, headers={"mcp-name": pages[1]})
            (content,) = read.json()["result"]["contents"]
            assert (content["uri"], content["text"]) == (pages[1], "<html>two</html>")
