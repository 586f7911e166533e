"""The proxies that stand beside the gateway in the table: `plain.py` of the Python SDK, `fast.py` of FastMCP.

Each is a process in front of one server, `URL` as its argument, and prints its port.
"""
