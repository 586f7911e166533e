"""Processes: how they are started, spoken with and ended, and the workers that run tool files in them.

`supervisor.py` starts any command so that nothing of it outlives the gateway; it knows nothing of tools and serves
whoever needs a process. The other files are about one kind: worker processes, each of which runs one version of a
tool file.
May import: errors, model. Never: sources and above; what a call means is decided there.
"""
