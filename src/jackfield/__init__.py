"""Jackfield: a gateway between AI agents and tools.

One package per capability; docs/architecture.md draws them. Start reading at `calls/pipeline.py`.
"""

from importlib.metadata import version

__version__ = version("jackfield")
