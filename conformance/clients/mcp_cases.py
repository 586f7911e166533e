"""Clients of MCP: Inspector, the SDKs, FastMCP and mcp-remote, each against `/mcp` in front of `servers/rich.py`.

Above: `__main__.py`.
"""

from typing import Any

from bench.processes import KEY
from conformance.clients.cases import Case, Checks, Scene, script
from conformance.clients.installing import NpmSet, PythonSet, SuiteSet
from conformance.suite import INSPECTOR, inspect, installed

TYPESCRIPT = "@modelcontextprotocol/sdk@1.32.2"
REMOTE = NpmSet(name="mcp-remote", packages=("mcp-remote@0.15.1", TYPESCRIPT))


def _typescript_2(mode: str) -> Case:
    what = NpmSet(name="mcp-typescript-2", packages=("@modelcontextprotocol/client@2.4.0",))
    run = script("mcp_typescript.mjs", MCP_SDK="2", MCP_MODE=mode)
    return Case(name=f"mcp-typescript-2-{mode}", what=what, run=run, is_mcp=True)


def _tasks(mode: str) -> Case:
    packages = ("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/ext-tasks@0.2.2")
    what = NpmSet(name="mcp-tasks", packages=packages)
    return Case(name=f"mcp-tasks-{mode}", what=what, run=script("mcp_tasks.mjs", MCP_MODE=mode), is_mcp=True)


def _inspector(_: Case, scene: Scene) -> Checks:
    """Its command line, which connects anew for each request."""
    tools = installed()

    def ask(method: str, *asked: str) -> dict[str, Any]:
        wanted = ("--method", method, *asked)
        return inspect(tools, url=f"{scene.url}/mcp", key=KEY, folder=scene.folder, asked=wanted)

    listed = {name: ask(f"{name}/list").get(name, []) for name in ("tools", "resources", "prompts")}
    called = ask("tools/call", "--tool-name", "rich", "--tool-arg", "text=hello")
    read = ask("resources/read", "--uri", "rich://item/7")
    got = ask("prompts/get", "--prompt-name", "rich", "--prompt-args", "topic=fields")
    templates = ask("resources/templates/list").get("resourceTemplates", [])
    return {
        "lists tools": any(tool["name"] == "rich" and tool.get("icons") for tool in listed["tools"]),
        "calls a tool": called.get("structuredContent") == {"text": "hello", "half": 0.5},
        "lists resources": any(one["uri"] == "rich://text" and one.get("size") for one in listed["resources"]),
        "lists templates": any(one["uriTemplate"] == "rich://item/{id}" for one in templates),
        "reads a resource": [one.get("text") for one in read.get("contents", [])] == ["Item 7"],
        "lists prompts": any(one["name"] == "rich" and one.get("arguments") for one in listed["prompts"]),
        "gets a prompt": got.get("messages", [{}])[0].get("content", {}).get("text") == "About fields",
    }


MCP_CASES = (
    Case(name="inspector", what=SuiteSet(packages=(INSPECTOR,)), run=_inspector, is_mcp=True),
    Case(
        name="mcp-typescript-1",
        what=NpmSet(name="mcp-typescript-1", packages=(TYPESCRIPT,)),
        run=script("mcp_typescript.mjs"),
        is_mcp=True,
    ),
    _typescript_2("legacy"),
    _typescript_2("auto"),
    _tasks("legacy"),
    _tasks("auto"),
    Case(
        name="mcp-python-1",
        what=PythonSet(name="mcp-python-1", packages=("mcp==1.30.0",)),
        run=script("mcp_python_1.py"),
        is_mcp=True,
    ),
    Case(
        name="mcp-python-2",
        what=PythonSet(name="mcp-python-2", packages=("mcp==2.3.0",)),
        run=script("mcp_python_2.py"),
        is_mcp=True,
    ),
    Case(
        name="mcp-remote",
        what=REMOTE,
        run=script("mcp_typescript.mjs", MCP_REMOTE=str(REMOTE.program("mcp-remote"))),
        is_mcp=True,
    ),
    Case(
        name="fastmcp",
        what=PythonSet(name="fastmcp", packages=("fastmcp==4.1.2",)),
        run=script("mcp_fastmcp.py"),
        is_mcp=True,
    ),
)
