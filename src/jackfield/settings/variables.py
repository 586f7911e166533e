"""`${NAME}` in settings, at any depth. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Any

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

MASKED = "[redacted]"
Lookup = Callable[[str, str], str]
"""The value of a variable, by its name and the key that uses it; raises where there is none."""


def expanded(value: Any, lookup: Lookup, key: str = "") -> Any:
    """The same with every `${NAME}` replaced by its value."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: lookup(found[1], key), value)
    if isinstance(value, dict):
        return {k: expanded(v, lookup, f"{key}.{k}" if key else k) for k, v in value.items()}
    if isinstance(value, list):
        return [expanded(item, lookup, f"{key}[{n}]") for n, item in enumerate(value)]
    return value


def variables_in(value: Any) -> frozenset[str]:
    """The names of all variables that are used."""
    found: set[str] = set()

    def note(name: str, _key: str) -> str:
        found.add(name)
        return ""

    expanded(value, note)
    return frozenset(found)


def hidden_in(value: Any) -> str | None:
    """The first key whose value is hidden: one that was shown, not one that was meant."""
    found: list[str] = []

    def look(part: Any, key: str) -> None:
        if isinstance(part, str):
            found.extend([key] if MASKED in part else [])
        elif isinstance(part, Mapping):
            for name, inner in part.items():
                look(inner, f"{key}.{name}" if key else str(name))
        elif isinstance(part, list):
            for number, inner in enumerate(part):
                look(inner, f"{key}[{number}]")

    look(value, "")
    return found[0] if found else None


HIDDEN_VALUE = "'{key}' has '[redacted]', which is how secrets are shown. Leave it out to keep it, or write the value."


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`before` with a JSON merge patch: null removes a key, a table changes some keys of a table."""
    found = dict(before)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            inner = found.get(key)
            found[key] = merged(inner if isinstance(inner, dict) else {}, value)
        else:
            found[key] = value
    return found
