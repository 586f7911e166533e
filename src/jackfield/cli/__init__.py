"""The command line: a thin user of the SDK, one file per command.

`main.py` finds the command and says how it went; `reach.py` finds the gateway, or runs one inside the command;
`show.py` is how things look on a terminal. May import everything; nothing imports it. A command asks, prints and
ends: whatever is decided is decided behind the doors.
"""
