"""`jackfield_tool` under its older name. One module for both."""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("jackfield_tool")
