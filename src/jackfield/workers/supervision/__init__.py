"""The processes between the gateway and the commands it starts, so that no command outlives what it was started for.

    gateway ── zygote ─┬─ minder ── command ── whatever the command starts
                       └─ minder ── command …

`zygote.py` forks a minder for each command, `minder.py` starts it and ends all that came of it, `tree.py` finds and
signals descendants, `wire.py` has the words between the processes, `link.py` is the gateway's end of the line.
All but `link.py` run in the zygote under `python -I -S`: they import the standard library and, relatively, each other,
because there the package is `supervision` and not part of `jackfield`.
"""
