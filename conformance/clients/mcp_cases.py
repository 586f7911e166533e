"""Clients of MCP: the SDKs, FastMCP and mcp-remote, each against `/mcp` in front of a server with everything MCP has.

Above: `__main__.py`. MCP Inspector is run by `conformance/inspector.py`.
"""

from conformance.clients.cases import Case, script
from conformance.clients.installing import NpmSet, PythonSet

TYPESCRIPT = "@modelcontextprotocol/sdk@1.32.2"
REMOTE = NpmSet(name="mcp-remote", packages=("mcp-remote@0.15.1", TYPESCRIPT))


def _typescript_2(mode: str) -> Case:
    what = NpmSet(name="mcp-typescript-2", packages=("@modelcontextprotocol/client@2.4.0",))
    run = script("mcp_typescript.mjs", MCP_SDK="2", MCP_MODE=mode)
    return Case(name=f"mcp-typescript-2-{mode}", what=what, run=run, is_mcp=True)


MCP_CASES = (
    Case(
        name="mcp-typescript-1",
        what=NpmSet(name="mcp-typescript-1", packages=(TYPESCRIPT,)),
        run=script("mcp_typescript.mjs"),
        is_mcp=True,
    ),
    _typescript_2("legacy"),
    _typescript_2("auto"),
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
