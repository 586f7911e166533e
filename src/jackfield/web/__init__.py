"""The doors: HTTP and WebSocket. A door parses, asks one room, and renders the answer; it decides nothing else.

`routes.py` is the whole URL map. `guard.py` stands before every door: Host, Origin, key, scope, errors. This room may
import everything below it (`app` and down) and is imported by `cli` alone. It never touches SQL, runs no tool and
keeps no state of a call.
"""
