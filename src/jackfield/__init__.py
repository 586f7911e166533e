"""Jackfield: the panel where an AI agent's tools plug in.

Rooms, from the street down: cli and web (doors), calls (the life of one call), catalog (what a key may
see), sources (where tools come from), store (the only room with SQL), model (words). Imports go down
this list, never up; `make check` holds the floors. Read `calls/pipeline.py` first.
"""

from importlib.metadata import version

__version__ = version("jackfield")
