"""The MCP server at `/mcp`, for every revision of the protocol."""
