"""Sandboxes: what a program may see and use while it runs under the gateway's supervisor.

A sandbox changes how a program is started, not who starts it: the supervisor does, as for every process, so its end
is noticed and nothing of it is left, whatever happens to it or to the gateway.

    launch = await worker_host.sandboxes.plan(
        settings.sandbox,                             # SandboxSettings: kind, network, limits, folders
        command=settings.command,                     # looked for in the PATH of `env`
        env={"PATH": …, "JACKFIELD_TOKEN": …},        # all of its environment; nothing of the gateway's is added
        folder=folder,                                # where it starts, readable; None: a private, empty folder
        sockets={"JACKFIELD_SOCKET": socket_path},    # seen inside; the variable says where
        name=session_id,                              # for a container's {name}
        with_jackfield=True,                          # this gateway's Python and `jackfield` can be run inside
    )
    child = await launch.start(worker_host.supervisor, stdin=fd, stdout=fd, stderr=fd)
    code = await child.wait()                         # when nothing of it is left
    launch.describe_exit(code)                            # "it was killed: it used more than the 5 s of CPU time …"
    child.kill(grace=1.0)                             # SIGTERM to the program now, SIGKILL to all after a second

`plan` raises `SandboxUnavailable` (a `CouldNotStart`) with a sentence when the machine lacks what the settings ask
for; `start` raises `CouldNotStart`. `await worker_host.sandboxes.fault(settings)` gives that sentence ahead of time, or
None. `child.pid` is that of the process that holds the sandbox; inside, the program has another. The gateway's data
folder and config file are hidden inside, also where they lie in a folder that is shown.

`sandboxes.py` chooses a kind that works here and plans; `view.py` says what is seen, `programs.py` what a program
needs to run, `kinds.py` turns that into a start, `words.py` tells how it ended. What the kernel is asked to do is in
`supervision/`: namespaces are made by the process that becomes the program.
May import: errors, settings_sessions, the supervisor. Never: tools, sessions; it knows neither.
"""
