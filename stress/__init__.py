"""The long counts: races at the deadline, kill -9 under load, two answers at once. `make stress` runs all of it.

Each part takes its counts from `counts.py`, says how far it is, and gives a `Report` with what it saw and what was
wrong; `make test` runs the same parts small (`tests/stories/test_stress_small.py`). A part decides nothing by
luck: its seed is printed and can be given again.
"""
