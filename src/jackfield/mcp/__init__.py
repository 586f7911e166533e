"""The MCP server: `/mcp` and stdio, both eras of the protocol."""
