"""`/mcp`: the catalog as an MCP server, for clients of the handshake era (2024-11-05 to 2025-11-25) and of 2026-07-28.

`door.py` is what HTTP sees: POST, GET and DELETE of one path. `methods.py` is the protocol: one function per method of
JSON-RPC, which knows no transport. Between them `exchange.py` carries one request to its answer, as JSON or, as soon as
there is something to say before the answer, as a stream of events. Every call goes through the pipeline.

The SDK's own server is not used: it serves an era by header only, keeps a task group and four memory streams for each
request and parses every message with pydantic three times, which costs several times the call itself (`docs/why.md`
has the figures). The tests speak to this door with the SDK's client.
"""
