"""Tools of other services that publish seed 004's manifest: `kind = "manifest"`.

`source.py` is what the keeper holds. Below it `fetching.py` reads the manifest past its cache when it is due,
`following.py` hears of changes at once where the service tells them, `calling.py` has a tool executed there, each
request an `exchange.py`, and `work.py` follows what goes on there. `reading.py`, `spelling.py` and `answers.py` turn a
service's words into ours, `options.py` the operator's. May import: outgoing, the HTTP tools' requests, what every
source may. Never: another kind of source, the calls.
"""
