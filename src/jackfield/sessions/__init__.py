"""Sessions: agents that run for a caller and may call that caller's tools.

`registry.py` is the entry point: open, message, read, answer, end. A session runs an agent of the config (`agent.py`)
or a sandboxed program (`program.py`), and has an event buffer (`session.py`) and a socket (`relay_socket.py`) through
which a program calls caller tools. `relay.py` forwards such a call to the caller and its answer back; the call itself
goes through the pipeline. `bridge.py` runs inside the sandbox.

Sessions live in this gateway's memory and end with it; calls of their agents are on record.
"""
