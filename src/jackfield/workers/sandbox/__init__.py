"""Sandboxes: what a program may see and use while it runs under the supervisor.

    plan = await worker_host.sandboxes.plan(
        settings.sandbox,                             # SandboxSettings: kind, network, limits, folders
        command=settings.command,                     # searched in the PATH of `env`
        env={"PATH": …, "JACKFIELD_TOKEN": …},        # its whole environment; nothing of the gateway's is added
        folder=folder,                                # its working directory, readable; None: a private, empty one
        sockets={"JACKFIELD_SOCKET": socket_path},    # visible inside; the variable holds the path
        name=session_id,                              # for a container's {name}
        with_jackfield=True,                          # this gateway's Python and `jackfield` can be run inside
    )
    child = await plan.start(worker_host.supervisor, stdin=fd, stdout=fd, stderr=fd)
    code = await child.wait()                         # when nothing of it is left
    plan.describe_exit(code)                          # "it used more than the 5 s of CPU time …"
    child.kill(grace=1.0)                             # SIGTERM to the program now, SIGKILL to all after a second

`plan` raises `SandboxUnavailable` (a `CouldNotStart`) if the machine lacks what the settings ask for; `start` raises
`CouldNotStart`. `sandboxes.fault(settings)` returns that message ahead of time, or None. `child.pid` is the process
that holds the sandbox; inside, the program has another one. The gateway's data folder and config file are never seen.

`sandboxes.py` chooses a kind that works here, `view.py` lists what is seen, `kinds.py` turns that into a start. The
system calls are in `supervision/`.
"""
