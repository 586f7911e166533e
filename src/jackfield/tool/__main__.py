"""The start of every worker: `python FOLDER serve FILE`. A module that is imported comes from Python's cache of
compiled code; one that is started by its own path is compiled each time.
"""

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module("jackfield_tool").start(sys.argv[1:])
