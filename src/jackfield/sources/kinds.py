"""Which kinds of source there are. A new one of ours is one line here; anybody else's is an entry point.

A package adds a kind with the entry-point group `jackfield.sources`: its name is the kind, its value a `Factory`
(`base.py`); `registry.py` shows one whole.
"""

from collections.abc import Mapping
from typing import Any

from jackfield.errors import ConfigError
from jackfield.settings.tools import SourceSettings
from jackfield.sources.base import Factory, Source, SourceContext
from jackfield.sources.files import files_source
from jackfield.sources.manifest.source import manifest_source
from jackfield.sources.mcp.source import mcp_source
from jackfield.sources.openapi.source import openapi_source
from jackfield.sources.plugins import foreign_factory
from jackfield.sources.skills.source import skills_source

GROUP = "jackfield.sources"
OURS: Mapping[str, Factory] = {
    "files": files_source,
    "manifest": manifest_source,
    "mcp": mcp_source,
    "openapi": openapi_source,
    "skills": skills_source,
}


def make_configured(source: SourceSettings, source_context: SourceContext) -> Source:
    """The source that the config describes. Raises `ConfigError`, also where it cannot have the login it wants."""
    made = make_source(source.kind, source.name, source.options, source_context)
    if source.auth == "none":
        return made
    if not getattr(made, "uses_login", False):
        raise ConfigError(
            f"sources.{source.name}.auth is '{source.auth}', but this source makes no requests that a login could go "
            "with: only 'mcp' over HTTP or SSE and 'openapi' have logins. Remove it."
        )
    return made


def make_source(kind: str, name: str, options: dict[str, Any], source_context: SourceContext) -> Source:
    """The source that `[sources.NAME]` describes. A kind nobody knows, or options it cannot use: `ConfigError`."""
    factory: Factory = OURS.get(kind) or foreign_factory(GROUP, kind, key=f"sources.{name}.kind", ours=OURS)
    return factory(name, options, source_context)
