"""Tools of services that publish seed 004's manifest: `kind = "manifest"`.

`feed.py` fetches the manifest and follows its changes, `parser.py` turns it into a listing (`protojson.py` unwraps what
protobuf wrote), `client.py` calls the tools and `responses.py` reads what comes back.
"""
