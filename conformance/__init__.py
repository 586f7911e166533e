"""`make conformance`: the MCP project's own suite, and its Inspector, against a real gateway in front of a server.

`suite.py` installs and runs them with Node, in a folder that git ignores; `fixture.py` is the server; `verdict.py`
holds what failed against `exceptions.toml`, where every failure that is meant has its reason. Nothing here is imported
by the gateway, and `make test` does not need it.
"""
