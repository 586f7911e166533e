"""Worker processes: the environments, sandboxes and supervision of everything that the gateway starts.

`supervisor.py` starts any command so that nothing of it outlives the gateway. `sandbox/` decides what a program may see
and use. The rest runs tool files: `host.py` has a `pool.py` per version of a file, each with `worker.py` processes in
an environment made by `environments.py`.
"""
