"""OAuth 2.1 in front of `/mcp`: the resource, the built-in authorization server, tokens of external issuers."""
