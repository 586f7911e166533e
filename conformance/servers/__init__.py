"""Other people's MCP servers, unchanged, behind the gateway: `python -m conformance.servers`.

`__main__.py` prints what differs, `running.py` starts them. `cases.py` has one server each: how it is installed and
started, and what is asked of it; `view.py` is what a client of the SDK sees of a server; `differences.py` compares two
such views field by field. `rich.py` is a server of our own that has every field the others leave out.
"""
