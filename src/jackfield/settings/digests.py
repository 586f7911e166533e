"""Digests of the config file by table, so that gateways of one database can tell that theirs differ. Pure.

No secret is part of one: a variable counts by its name, and what is written where secrets are written not at all.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

OWN_TABLES = frozenset({"server", "store"})
"""These may differ from gateway to gateway."""
_SECRET = re.compile(r"key|secret|token|passw|auth|credential|cookie", re.IGNORECASE)
_SECRET_TABLES = frozenset({"headers", "env"})
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_USER = re.compile(r"(?<=://)[^/@\s]*@")
_SHOWN = 16


def table_digests(written: Mapping[str, Any]) -> dict[str, str]:
    """By table: a digest of what the file says there, before variables are replaced."""
    return {
        name: hashlib.sha256(msgspec.json.encode(_public(table), order="sorted")).hexdigest()[:_SHOWN]
        for name, table in written.items()
        if name not in OWN_TABLES
    }


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """The tables that two files do not have in common, by name."""
    return tuple(sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)))


def _public(value: Any, *, is_secret: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            str(key): _public(inner, is_secret=is_secret or key in _SECRET_TABLES or _is_secret(key, inner))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_public(inner, is_secret=is_secret) for inner in value]
    if isinstance(value, str):
        return _VARIABLE.findall(value) if is_secret else _USER.sub("", value)
    return value if isinstance(value, (bool, int, float)) or value is None else str(value)


def _is_secret(key: object, value: object) -> bool:
    """Whether a text under this name may be one; a table of that name (`auth`, `keys`) is looked into."""
    return isinstance(value, str) and _SECRET.search(str(key)) is not None
