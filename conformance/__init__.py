"""`make conformance`: the MCP project's own suite, and its Inspector, against a real gateway in front of a server.

`suite.py` installs and runs them with Node, in a folder that git ignores. The suite has three legs: `server_leg.py`,
`client_leg.py` and `authorization_leg.py` are each a function from a `Plan` to `Run`s (`plan.py`, `results.py`).
`subjects.py` starts what is looked at: the fixture, the gateway in front of it, other proxies. `verdict.py` holds what
failed in ours against `exceptions.toml`, where every failure that is meant has its reason; `table.py` makes the page.
Nothing here is imported by the gateway, and `make test` does not need it.
"""
