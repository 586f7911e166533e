"""Where tools come from: one file per kind, each lists its tools and executes one.

A source knows nothing of keys, policy, records or HTTP doors; it is given a checked invocation and gives
back an outcome. `keeper.py` brings each source up, keeps its last listing and lets it go down alone.
May import: model, errors, parsing, workers. Never: catalog and above.
"""
