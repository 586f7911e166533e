"""Starts a worker: `python FOLDER serve|script FILE [--options JSON]`."""

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module("jackfield_tool").start(sys.argv[1:])
