"""The operator's words: `jackfield.toml` (or `.json`), the environment, and the secrets file.

Everything is checked here, once, at the start. A config that cannot be used raises `ConfigError` with one
sentence that names file, key and cure; after that no other room sees raw config.
"""

from jackfield.settings.loading import (
    LocalGateway,
    Secrets,
    Settings,
    find_config,
    is_for_all,
    load_local,
    load_settings,
)
from jackfield.settings.tools import RESERVED_SOURCES, ToolOverride, ToolSettings, is_source_name, parse_tool
from jackfield.settings.types import KeySettings, ResponsesSettings, ServerSettings

__all__ = [
    "RESERVED_SOURCES",
    "KeySettings",
    "LocalGateway",
    "ResponsesSettings",
    "Secrets",
    "ServerSettings",
    "Settings",
    "ToolOverride",
    "ToolSettings",
    "find_config",
    "is_for_all",
    "is_source_name",
    "load_local",
    "load_settings",
    "parse_tool",
]
