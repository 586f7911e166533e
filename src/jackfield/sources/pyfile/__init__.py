"""Reads the tools of a Python file from its text, without running it.

`reader.py` is the entry point. `pep723.py` finds the script metadata of files that run in a worker, `names.py` resolves
names, `hints.py` and `classes.py` turn annotations into JSON Schema, `docstrings.py` splits docstrings.
"""
