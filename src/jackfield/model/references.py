"""References within one JSON Schema. Pure."""

from typing import Any

MOST_HOPS = 20


def resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """The schema itself, past references within the same document; nothing where they lead nowhere."""
    for _ in range(MOST_HOPS):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            break
        target: Any = root
        for part in reference.removeprefix("#").split("/")[1:]:
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        beside = {word: said for word, said in schema.items() if word != "$ref"}
        schema = {**target, **beside} if isinstance(target, dict) else {}
    return schema if isinstance(schema, dict) else {}
