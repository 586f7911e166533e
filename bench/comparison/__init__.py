"""Jackfield beside other gateways and proxies, in one run: `python -m bench.comparison`, or `make bench-peers`.

`peers.py` names who is measured, `rows.py` what. Each of them is in an environment of its own, made by uv from the
lists in `requirements/`. The load is that of the other benchmarks (`bench/load.py`, `bench/stream_load.py`).
"""
