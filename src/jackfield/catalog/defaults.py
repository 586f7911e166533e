"""What a tool's schema demands of a call, has a default for, and the caller left out.

Above: `catalog.py`, which fills it in where arguments would else be refused. Pure. Properties, references within the
schema, `allOf` and the items of lists are looked at. A schema of a stranger and large arguments cannot make it long:
beyond a bound the rest stays as it is.
"""

from typing import Any

from jackfield.model.references import resolved
from jackfield.model.tool import JsonSchema

MOST_LOOKS = 5_000
"""Names, items and parts that are looked at for one call."""
DEEPEST = 40


def with_defaults(schema: JsonSchema, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with what is required, left out and has a default; the very same object where there is no such."""
    filled: dict[str, Any] = _Filling(schema).filled(schema, arguments, depth=0)
    return arguments if filled == arguments else filled


class _Filling:
    """One call's arguments."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._looks = 0

    def filled(self, schema: Any, value: Any, *, depth: int) -> Any:
        """`value` with its defaults, which is a copy where it has any."""
        if depth > DEEPEST or not isinstance(value, dict | list) or not self._may_look():
            return value
        here = resolved(schema, self._root)
        if isinstance(value, list):
            items = here.get("items")
            return [self.filled(items, item, depth=depth + 1) for item in value] if isinstance(items, dict) else value
        found = dict(value)
        parts = here.get("allOf")
        for part in (here, *(parts if isinstance(parts, list) else ())):
            if self._may_look():
                self._fill(resolved(part, self._root), found, depth=depth)
        return found

    def _fill(self, part: JsonSchema, found: dict[str, Any], *, depth: int) -> None:
        properties = part.get("properties")
        if not isinstance(properties, dict):
            return
        required = part.get("required")
        for name in required if isinstance(required, list) else ():
            if (
                name not in found
                and self._may_look()
                and "default" in (own := resolved(properties.get(name), self._root))
            ):
                found[name] = own["default"]
        for name, value in found.items():
            if name in properties:
                found[name] = self.filled(properties[name], value, depth=depth + 1)

    def _may_look(self) -> bool:
        self._looks += 1
        return self._looks <= MOST_LOOKS
