"""Tools that live on MCP servers: `kind = "mcp"`. One connection per server, shared by all calls.

We speak JSON-RPC ourselves, with results passed on unparsed. The SDK's client was measured at more than ten times the
CPU per call; importing it takes a second; and one failed request ends its whole connection. `source.py` is what the
keeper holds; below it `upstream.py` keeps one `connection.py`, `handshake.py` agrees on a revision, and a wire carries
messages: `streamable.py`, `sse.py`, `stdio.py`, or another package's (`wires.py`). `listing.py` and `results.py` turn
what a server says into our words. May import: outgoing, workers, what every source may. Never: another kind of
source, the `mcp` package.
"""
