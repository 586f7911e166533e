"""What the MCP row measures besides the gateway: an upstream server and two proxies in front of it.

Each is run as a process and prints its port: `upstream.py` and `plain.py` with the SDK that is installed, `fast.py` by
uv, with the packages that it names itself.
"""
