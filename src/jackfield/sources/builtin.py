"""The gateway's own tools. Their names are kept for them (`model/tool.py`), so that nothing can stand in for one."""

from typing import ClassVar

from jackfield.sources.registry import Registry, RegistrySource


class BuiltinSource(RegistrySource):
    """A registry under a name that no config can take."""

    kind: ClassVar[str] = "builtin"

    def __init__(self, registry: Registry) -> None:
        super().__init__("builtin", registry)
