"""Sessions: an agent that works for one caller and can use the caller's tools.

The agent is one of the config (`agent.py`) or a program in a sandbox (`program.py`). A session has a buffer of events
and a socket for its program. A call of a caller tool goes through the pipeline like every call. Sessions live in the
memory of one gateway and end with it; their calls are on record.
"""
