"""The life of one call: find, validate, decide, execute, settle. Read `pipeline.py`; the rest serves it.

Every tool call goes through here; nothing else executes a tool. May import: catalog, sources, store, model,
errors. Never: web, cli, or anything that knows how a request arrived.
"""
