"""Code mode against plain calls, on public tasks: the multi-turn base set of `bfcl-eval`.

`package.py` installs the package and reads its tasks, `answers.py` turns reference answers into calls and programs,
`tool_files.py` makes tools of its back ends, `backends.py` runs them inside the gateway, `model.py` plays the model,
`sides.py` runs a task in both ways, `report.py` prints what that came to. Nothing of the package is in this repository.
"""
