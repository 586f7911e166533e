"""An agent that works for somebody, and the tools that this somebody, its caller, lends it.

`registry.py` is the room's face: open, message, read, answer, end. A session has one inhabitant, an agent of the
config (`agent.py`) or a program of the operator's in a sandbox (`program.py`), one ring of events (`events.py`) and
one socket (`relay_socket.py`) by which a program reaches what is lent. `relay.py` carries a call of a lent tool to its
caller and the answer back; the call itself goes the one road of every call. `bridge.py` runs inside the sandbox.

May import: agents, calls, catalog, workers and what is below them. Never: a door. Sessions live in this gateway's
memory and end with it; what their agents called is on record.
"""
