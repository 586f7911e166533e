"""Tools of MCP servers: `kind = "mcp"`. One connection per server, shared by all calls; results pass unparsed.

`source.py` is the source. Below it `upstream.py` keeps a `connection.py` open, `handshake.py` agrees on a revision,
`handlers.py` answers what the server asks, and a transport carries the messages: `http.py`, `stdio.py`, or another
package's (`transport.py`). docs/why.md says why this is not the SDK's client.
"""
