"""What a config that is read anew changes, and which of that waits for a restart. Pure.

Every field of `Settings`, and of a table that is applied in parts, is in exactly one of the two sets below; a test
walks them all. Above: the reload (`gateway/reloading.py`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, structs

from jackfield.settings.loading import Settings
from jackfield.settings.origins import kept
from jackfield.settings.tools import SourceSettings

APPLIED_LIVE = frozenset(
    {
        "admin",
        "agents",
        "admin_key",
        "approval",
        "audit",
        "categories",
        "digests",
        "groups",
        "hooks",
        "keep_days",
        "keys",
        "mcp",
        "models",
        "notify",
        "relay",
        "responses",
        "roles",
        "secrets",
        "server.allowed_hosts",
        "server.cors_origins",
        "server.watch",
        "sessions",
        "sources",
        "tools",
        "values",
    }
)
NEEDS_RESTART = frozenset(
    {
        "console",
        "data",
        "discovery",
        "folder",
        "large_result",
        "log_format",
        "oauth",
        "oidc",
        "origin",
        "outgoing",
        "path",
        "programs",
        "scenario",
        "server.host",
        "server.max_body",
        "server.port",
        "server.public_url",
        "server.trusted_proxies",
        "server.workers",
        "services",
        "store_from",
        "store_url",
    }
)
_UNNAMED = frozenset({"digests", "folder", "origin", "secrets", "services", "store_from", "values"})
"""These follow from others, which are named instead."""
_WRITTEN = {
    "admin_key": "auth.admin_key",
    "data": "JACKFIELD_DATA",
    "keep_days": "store.keep",
    "keys": "auth.keys",
    "large_result": "store.large_result",
    "log_format": "JACKFIELD_LOG",
    "oauth": "auth.oauth",
    "oidc": "auth.oidc",
    "path": "the config's path",
    "roles": "auth.roles",
    "store_url": "store.url",
}
"""How a field is called in the config, where that is not its own name."""
_ANY_PORT = 0


def written(fields: Iterable[str]) -> frozenset[str]:
    """What these are called in the config; without those that have no name there."""
    return frozenset(_WRITTEN.get(name, name) for name in fields if name not in _UNNAMED)


class Changes(Struct, frozen=True, kw_only=True):
    """What is new, gone or different, by names such as `sources.github`, `auth.keys.ci` and `server.cors_origins`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restart_needed: tuple[str, ...] = ()
    """Different in the file, and in force only after a restart."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def names(self, table: str) -> "NamedChanges":
        """What changed of one table, by the names in it."""
        begin = f"{table}."
        return NamedChanges(
            added=tuple(name.removeprefix(begin) for name in self.added if name.startswith(begin)),
            removed=tuple(name.removeprefix(begin) for name in self.removed if name.startswith(begin)),
            changed=tuple(name.removeprefix(begin) for name in self.changed if name.startswith(begin)),
        )


class NamedChanges(Struct, frozen=True, kw_only=True):
    """What changed of one table with names: sources, keys, models."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def changes_between(old: Settings, new: Settings) -> Changes:
    """What is different in `new`, by name."""
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    waiting: list[str] = []
    for name in _parts(Settings):
        before, after = _value(old, name), _value(new, name)
        if name in _UNNAMED or (before == after and name != "sources"):
            continue
        if name in NEEDS_RESTART:
            is_any_port = name == "server.port" and after == _ANY_PORT
            waiting += [] if is_any_port else [_WRITTEN.get(name, name)]
            continue
        named = _WRITTEN.get(name, name)
        known, found = _by_name(old, name, before), _by_name(new, name, after)
        if known is None or found is None:
            changed += [named] if before != after else []
            continue
        added += [f"{named}.{one}" for one in found if one not in known]
        removed += [f"{named}.{one}" for one in known if one not in found]
        changed += [f"{named}.{one}" for one in found if one in known and known[one] != found[one]]
    return Changes(
        added=tuple(sorted(added)),
        removed=tuple(sorted(removed)),
        changed=tuple(sorted(changed)),
        restart_needed=tuple(sorted(waiting)),
    )


def in_force(old: Settings, new: Settings) -> Settings:
    """The settings after a reload: `new`, but with `old`'s values where those stay until a restart."""
    fields = {name: getattr(old, name) for name in NEEDS_RESTART if "." not in name}
    server = {name.partition(".")[2]: _value(old, name) for name in NEEDS_RESTART if name.startswith("server.")}
    values = kept(old.values, new.values, until_restart=written(NEEDS_RESTART))
    return structs.replace(new, server=structs.replace(new.server, **server), values=values, **fields)


def _parts(kind: type[Struct]) -> Iterable[str]:
    """The names in the two sets, in the order of the fields."""
    for field in structs.fields(kind):
        if field.name in APPLIED_LIVE or field.name in NEEDS_RESTART:
            yield field.name
        else:
            yield from (f"{field.name}.{inner.name}" for inner in structs.fields(field.type))


def _value(settings: Settings, name: str) -> Any:
    field, _, inner = name.partition(".")
    value = getattr(settings, field)
    return getattr(value, inner) if inner else value


def _by_name(settings: Settings, field: str, value: Any) -> Mapping[str, Any] | None:
    """The parts of a table whose parts have names; None: it has none."""
    match field:
        case "sources":
            return {source.name: (source, _secrets_of(source, settings)) for source in settings.sources}
        case "tools":
            return {tool.name: tool for tool in settings.tools}
        case "categories":
            return {category.id: category for category in settings.categories}
        case _:
            if isinstance(value, Struct):
                return structs.asdict(value)
            return value if isinstance(value, dict) else None


def _secrets_of(source: SourceSettings, settings: Settings) -> tuple[str | None, ...]:
    """The secrets that a source gets by their names: another value makes it another source."""
    names = source.options.get("secrets", ())
    return tuple(settings.secrets.get(name) for name in names if isinstance(name, str))
