"""Which kinds of source there are. A new one of ours is one line here; anybody else's is an entry point.

A package adds a kind with the entry-point group `jackfield.sources`: its name is the kind, its value a `Factory`
(`base.py`); `registry.py` shows one whole.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from jackfield.errors import ConfigError
from jackfield.parsing import nearest
from jackfield.sources.base import Factory, Source, Surroundings
from jackfield.sources.files import files_source
from jackfield.sources.mcp.source import mcp_source

GROUP = "jackfield.sources"
OURS: Mapping[str, Factory] = {"files": files_source, "mcp": mcp_source}


def make_source(kind: str, name: str, options: dict[str, Any], surroundings: Surroundings) -> Source:
    """The source that `[sources.NAME]` describes. A kind nobody knows, or options it cannot use: `ConfigError`."""
    factory = OURS.get(kind) or _foreign_factory(kind, name)
    return factory(name, options, surroundings)


def _foreign_factory(kind: str, name: str) -> Factory:
    foreign = {point.name: point for point in entry_points(group=GROUP)}
    if kind not in foreign:
        known = sorted({*OURS, *foreign})
        raise ConfigError(
            f"sources.{name}.kind is '{kind}', which nothing installed here knows.{nearest(kind, known)} "
            f"Known: {', '.join(known)}."
        )
    try:
        factory: Factory = foreign[kind].load()
    except Exception as fault:  # a border: another package's import may raise anything
        raise ConfigError(
            f"sources.{name}.kind '{kind}' comes from {foreign[kind].value}, which cannot be loaded: {fault}. "
            "Mend or remove that package."
        ) from fault
    return factory
