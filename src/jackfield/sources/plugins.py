"""What other packages bring: factories by the name they have in an entry-point group.

Above: `kinds.py` for kinds of sources, `mcp/wires.py` for transports. Below: the packages that are installed.
"""

from collections.abc import Collection
from importlib.metadata import entry_points
from typing import Any

from jackfield.errors import ConfigError
from jackfield.model.text import nearest


def foreign_factory(group: str, name: str, *, key: str, ours: Collection[str]) -> Any:
    """The factory that a package names so. `key` is where the config asks for it, `ours` what needs no package.

    Raises `ConfigError` when there is none, or it cannot be loaded.
    """
    points = {point.name: point for point in entry_points(group=group)}
    if name not in points:
        known = sorted({*ours, *points})
        raise ConfigError(
            f"{key} is '{name}', which nothing installed here knows.{nearest(name, known)} Known: {', '.join(known)}."
        )
    try:
        return points[name].load()
    except Exception as fault:  # a border: another package's import may raise anything
        raise ConfigError(
            f"{key} '{name}' comes from {points[name].value}, which cannot be loaded: {fault}. "
            "Mend or remove that package."
        ) from fault
