"""Tools as Python functions, for a model that writes a program. Pure.

Above: code mode on `/mcp`. Below: the catalog's entries.
"""

import json
import keyword
from collections.abc import Mapping
from typing import Any

from jackfield.catalog.merge import Entry
from jackfield.programs.runtime import python_name

MAX_DEPTH = 4
"""How deep a type is spelled out; below that it is `dict` or `list`."""
MAX_CHOICES = 12
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict"}


def stub_of(entry: Entry) -> str:
    """The signature of `tools.NAME` with what the tool says of itself."""
    tool = entry.tool
    schema = tool.input_schema
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = {str(name) for name in schema.get("required", ())}
    names = [name for name in properties if name in required] + [name for name in properties if name not in required]
    parts = [
        _parameter(name, properties[name], schema, is_required=name in required)
        for name in names
        if _can_be_named(name)
    ]
    others = [name for name in names if not _can_be_named(name)]
    if others:
        parts.append("**others: Any")
    result = "Any" if tool.output_schema is None else _type(tool.output_schema, tool.output_schema, 0)
    arguments = f"*, {', '.join(parts)}" if parts and parts[0] != "**others: Any" else ", ".join(parts)
    lines = [f"async def {python_name(entry.name)}({arguments}) -> {result}:"]
    lines += [f"    {line}" for line in _docstring(tool.description, properties, others)]
    return "\n".join(lines)


def _docstring(description: str, properties: Mapping[str, Any], others: list[str]) -> list[str]:
    said = description.strip().replace('"""', "'''").splitlines() or [""]
    for name, schema in properties.items():
        about = schema.get("description") if isinstance(schema, dict) else None
        if isinstance(about, str) and about:
            said.append(f"{name}: {' '.join(about.split())}")
    if others:
        said.append(f'Pass these as **{{"name": value}}: {", ".join(others)}')
    said[0] = f'"""{said[0]}'
    return [*said[:-1], f'{said[-1]}"""'] if len(said) == 1 else [*said, '"""']


def _can_be_named(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _parameter(name: str, schema: Any, root: Mapping[str, Any], *, is_required: bool) -> str:
    kind = _type(schema, root, 0)
    if is_required:
        return f"{name}: {kind}"
    default = schema.get("default") if isinstance(schema, dict) else None
    return f"{name}: {kind} = {default!r}" if default is not None else f"{name}: {kind} = ..."


def _type(schema: Any, root: Mapping[str, Any], depth: int) -> str:  # noqa: PLR0911 - one line for each form
    if not isinstance(schema, dict):
        return "Any"
    if isinstance(schema.get("$ref"), str):
        return _type(_resolved(schema["$ref"], root), root, depth + 1) if depth < MAX_DEPTH else "Any"
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= MAX_CHOICES:
        return f"Literal[{', '.join(map(repr, choices))}]"
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return _union([_type(one, root, depth + 1) for one in schema[word]])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return _union([_type({**schema, "type": kind}, root, depth) for kind in kinds])
    if kinds == "array":
        return f"list[{_type(schema.get('items'), root, depth + 1)}]" if depth < MAX_DEPTH else "list"
    if kinds == "object" and isinstance(schema.get("properties"), dict) and depth < MAX_DEPTH:
        return _record(schema, root, depth)
    return _PLAIN.get(str(kinds), "Any")


def _record(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    """The keys of an object with their types, as a model reads them."""
    members = [f"{json.dumps(name)}: {_type(one, root, depth + 1)}" for name, one in schema["properties"].items()]
    return f"dict[{{{', '.join(members)}}}]" if 0 < len(members) <= MAX_CHOICES else "dict"


def _union(kinds: list[str]) -> str:
    return " | ".join(dict.fromkeys(kinds)) if kinds else "Any"


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
