"""Other people's programs, unchanged, against a gateway and a scripted model: `python -m conformance.clients`.

`__main__.py` runs them and prints the table. `installing.py` gets them from npm and PyPI, `model.py` is the
chat-completions server that plays the model, `dialogue.py` what it says, `cases.py` one program each, `mcp_cases.py`
those that are clients of MCP alone; `programs/` has the small scripts that use the SDKs.
"""
