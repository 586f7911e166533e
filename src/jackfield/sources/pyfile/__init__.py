"""What one Python tool file says about its tools, read from its text: nothing here runs any of it.

`reader.py` is the way in. It asks `pep723.py` whether the file belongs in a process of its own, `names.py` what
the names in it mean, `hints.py` (with `classes.py` and `constraints.py`) for the schema of each annotation, and
`docstrings.py` for the words. May import: model. Never: anything that executes tools.
"""
