"""`jackfield_tool` under the name that tool files of the seed's era import. One module for both."""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("jackfield_tool")
