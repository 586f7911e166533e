"""Where tools come from: one module or package per kind of source; each lists its tools and executes calls.

A source knows nothing of keys, policy, records or HTTP: it gets a validated invocation and returns an outcome.
`supervisor.py` starts each source, keeps its last listing and retries it when it is down.
"""
