"""The processes between the gateway and the commands it starts. They make sure that no command outlives the gateway.

    gateway ── zygote ─┬─ monitor ── command ── whatever the command starts
                       └─ monitor ── command …

`zygote.py` forks a monitor for each command; `monitor.py` starts the command and ends all that came of it;
`processes.py` finds and signals descendants; `namespaces.py` and `kernel.py` build sandboxes; `messages.py` is what
the processes send each other. All of it runs in the zygote under `python -I -S`, where this package is a top-level
one: it imports the standard library only and, relatively, its own modules.
"""
