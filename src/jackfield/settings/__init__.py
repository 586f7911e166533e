"""The settings: `jackfield.toml` (or `.json`), the environment and the secrets file.

Everything is checked once, at the start; an invalid config raises `ConfigError`. Nothing else sees raw config.
"""

from jackfield.settings.changes import Changes, changes_between, in_force
from jackfield.settings.loading import (
    LocalGateway,
    Project,
    Secrets,
    Settings,
    ToolSource,
    find_config,
    listens_on_all,
    load_again,
    load_local,
    load_project,
    load_settings,
    load_tool_source,
    no_source,
)
from jackfield.settings.tools import (
    RESERVED_SOURCES,
    ToolOverride,
    ToolSettings,
    check_connection,
    is_source_name,
    parse_tool,
)
from jackfield.settings.types import KeySettings, ResponsesSettings, ServerSettings

__all__ = [
    "RESERVED_SOURCES",
    "Changes",
    "KeySettings",
    "LocalGateway",
    "Project",
    "ResponsesSettings",
    "Secrets",
    "ServerSettings",
    "Settings",
    "ToolOverride",
    "ToolSettings",
    "ToolSource",
    "changes_between",
    "check_connection",
    "find_config",
    "in_force",
    "is_source_name",
    "listens_on_all",
    "load_again",
    "load_local",
    "load_project",
    "load_settings",
    "load_tool_source",
    "no_source",
    "parse_tool",
]
