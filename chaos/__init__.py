"""A storm: calls of every kind over real gateways while everything around them is killed, stopped, filled and cut.

`make chaos` runs it, docs/chaos.md explains it. `plan.py` chooses by the seed what is done to whom and when,
`targets.py` and `stores.py` are to whom, `clients.py` makes the calls and `ledger.py` keeps what was said, `checker.py`
and `leaks.py` judge. `soak.py` is calm load for long, `hosts.py` two hosts with a bad network between them. Below:
`stress`, whose processes, reports and evidence are used here.
"""
