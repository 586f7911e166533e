"""What a service says of one tool beside its schema, as our metadata. Pure.

Above: `reading.py`. Below: `spelling.py`. What we do not know is passed over; what we know must make sense, since a
tool is better left out than offered without its limits.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import JackfieldError
from jackfield.model.behavior import AsyncBehavior
from jackfield.model.redaction import cut
from jackfield.model.tool import EMPTY_SCHEMA, Category, CostEstimate, Metadata, Tool
from jackfield.protocol.manifest import is_semver
from jackfield.settings.parsing import snake_keys
from jackfield.sources.base import About, Listing
from jackfield.sources.hidden import Unremovable, cleaned, cleaned_schema, has_hidden
from jackfield.sources.manifest.protojson import plain, plain_object, plain_schema, snake_deep

_METADATA = frozenset(Metadata.__struct_fields__)
_COSTS = frozenset(cost.value for cost in CostEstimate)
LONGEST_SHOWN = 100


def metadata_of(said: Any, *, is_protojson: bool) -> Metadata:
    """What the service says of a tool. What we do not know is passed over; what we know must make sense."""
    if said is None:
        return Metadata()
    if not isinstance(said, dict):
        raise ValueError("its metadata is no object")  # noqa: TRY004 - told like every other fault of a manifest
    spelled = snake_keys(said)
    known = {key: value for key, value in spelled.items() if key in _METADATA and value is not None}
    if is_protojson:
        known.setdefault("enabled_by_default", False)  # protojson leaves out what is false
    for limit in ("timeout_seconds", "rate_limit_per_minute"):
        if known.get(limit) == 0:
            del known[limit]
    cost = known.pop("cost_estimate", None)
    if isinstance(cost, str) and cost in _COSTS:  # a later version may have words of its own
        known["cost_estimate"] = cost
    for name, read in _READ.items():
        if name in known:
            known[name] = read(known[name])
    metadata = msgspec.convert(known, Metadata, strict=False)
    if metadata.rate_limit_per_minute is not None and metadata.rate_limit_per_minute < 0:
        raise ValueError("its rate_limit_per_minute is below zero")
    return metadata


def _example(example: Any) -> dict[str, Any]:
    if not isinstance(example, dict):
        raise ValueError("one of its examples is no object")  # noqa: TRY004 - told like every other fault
    spelled = snake_keys(example)
    shown = {
        "description": cleaned(text_of(spelled.get("description")) or ""),
        "input": plain_object(spelled.get("input") or {}),
    }
    if spelled.get("expected_output") is not None:
        shown["expected_output"] = plain(spelled["expected_output"])
    return shown


def _tags(tags: Any) -> Any:
    return [cleaned(text_of(tag) or "") for tag in tags] if isinstance(tags, list) else tags


def _examples(examples: Any) -> Any:
    return [_example(example) for example in examples] if isinstance(examples, list) else examples


_READ = {"tags": _tags, "examples": _examples, "async_behavior": snake_deep}


def text_of(value: Any) -> str | None:
    """Text, or nothing; anything else raises `ValueError`."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{shown(value)} stands where text was expected")
    return value


def shown(value: Any) -> str:
    """Foreign text in a sentence: quoted, on one line, and short."""
    text = " ".join(cleaned(value if isinstance(value, str) else repr(value)).split())
    return f"'{text[:LONGEST_SHOWN]}{'…' if len(text) > LONGEST_SHOWN else ''}'"


MAJOR = 1
MAX_TOOLS = 10_000
MAX_DEFINITION = 256 * 1024
LONGEST_NAME = 256
LONGEST_ABOUT = 1_000
MOST_ORDER = 1e9
"""What a category may say of its place; JSON has numbers that are no floats."""
_NO_SEGMENTS = frozenset({".", ".."})
_VERSION = re.compile(r"(\d{1,9})(?:\.\d{1,9}){0,2}", re.ASCII)


class BadManifest(JackfieldError):
    """What the service answered is no manifest of ours to read."""

    code = "bad_manifest"


class ManifestRules(Struct, frozen=True, kw_only=True):
    """What the config says about a service's tools."""

    source: str
    server: str
    """Where it is, for people to see."""
    allowed: tuple[str, ...] | None = None
    timeout_ms: int | None = None


class ServiceManifest(Struct, frozen=True, kw_only=True):
    """What a service offers, as of `generated_at`."""

    listing: Listing = Listing()
    generated_at: datetime | None = None


class _Document(Struct, frozen=True):
    """The manifest itself, spelled our way, with its parts still to be read."""

    is_protojson: bool
    tools: list[Raw]
    categories: list[Raw]
    generated_at: Any
    scenario: Any


def manifest_of(body: bytes, rules: ManifestRules) -> ServiceManifest:
    """The manifest in an answer's body. Raises `BadManifest`."""
    document = _document(body)
    faults: list[str] = []
    generated_at = _moment(document.generated_at, faults)
    tools = _tools(document, rules, faults)
    about = _about(document.scenario)
    if about is not None and about.version and not is_semver(about.version):
        faults.append(f"The service says its version is {shown(about.version)}, which is no semantic version.")
    return ServiceManifest(
        listing=Listing(
            tools=tuple(_followable(tool, tools, faults) for tool in tools.values()),
            categories=_categories(document.categories, faults),
            faults=tuple(faults),
            about=about,
        ),
        generated_at=generated_at,
    )


def _document(body: bytes) -> _Document:
    try:
        parts = msgspec.json.decode(body, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise BadManifest(f"It answered with no manifest: {_told(fault)}. Its url may be wrong.") from None
    is_protojson = "protocolVersion" in parts
    spelled = snake_keys(parts)
    _check_version(_value(spelled.get("protocol_version")))
    # protojson leaves out what is empty; in the document's own spelling every list is there.
    if "tools" not in spelled and not is_protojson:
        raise BadManifest("Its manifest has no 'tools'. Correct it at the service.")
    return _Document(
        is_protojson,
        _list(spelled.get("tools"), "tools"),
        _list(spelled.get("categories"), "categories"),
        _value(spelled.get("generated_at")),
        _value(spelled.get("scenario")),
    )


def _check_version(version: Any) -> None:
    """Refuse another major version in words; minor and patch versions make no difference."""
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is None:
        said = "is missing" if version is None else f"is {shown(version)}"
        raise BadManifest(f"Its manifest's protocol_version {said}, which is no version. Correct it at the service.")
    if int(found[1]) != MAJOR:
        raise BadManifest(
            f"It speaks version {version} of the discovery protocol; this gateway reads {MAJOR}.x. "
            "Use a service, or a gateway, that fits the other."
        )


def _value(raw: Raw | None) -> Any:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise BadManifest(f"Its manifest cannot be read: {_told(fault)}. Correct it at the service.") from None


def _list(raw: Raw | None, what: str) -> list[Raw]:
    if raw is None or bytes(raw) == b"null":
        return []
    try:
        return msgspec.json.decode(raw, type=list[Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise BadManifest(f"Its manifest's '{what}' is no list: {_told(fault)}. Correct it at the service.") from None


def _moment(said: Any, faults: list[str]) -> datetime | None:
    if said is None:
        return None
    try:
        moment = datetime.fromisoformat(said)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        faults.append(f"Its generated_at is {shown(said)}, which is no time of ISO 8601. Correct it at the service.")
        return None


def _about(said: Any) -> About | None:
    """Who the service says it is. Where it is, the config says."""
    if not isinstance(said, dict):
        return None
    texts = {
        key: cleaned(said[key])[:LONGEST_ABOUT] for key in ("version", "description") if isinstance(said.get(key), str)
    }
    return About(**texts)


def _tools(document: _Document, rules: ManifestRules, faults: list[str]) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for raw in document.tools[:MAX_TOOLS]:
        try:
            definition = _definition(raw)
            name = definition["name"]
            if not _is_allowed(name, rules.allowed):
                continue
            if name in tools:
                raise _Unusable(f"Tool {shown(name)} is offered twice; the first is used.")  # noqa: TRY301 - said like the other faults
            tools[name] = _tool(definition, raw, rules, is_protojson=document.is_protojson)
            faults += _hidden(definition)
        except _Unusable as fault:
            faults.append(str(fault))
    if len(document.tools) > MAX_TOOLS:
        faults.append(f"The service offers {len(document.tools):,} tools; the first {MAX_TOOLS:,} are used.")
    return tools


class _Unusable(Exception):
    """One tool or category that cannot be offered, as a sentence."""


def _definition(raw: Raw) -> dict[str, Any]:
    if len(bytes(raw)) > MAX_DEFINITION:
        raise _Unusable(f"A tool is left out: its definition has more than the {MAX_DEFINITION:,} bytes allowed.")
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise _Unusable(f"A tool is left out: {_told(fault)}. Correct it at the service.") from None
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise _Unusable(f"A tool is left out: it has no name of 1 to {LONGEST_NAME} characters.")
    if name in _NO_SEGMENTS:
        raise _Unusable(f"A tool is left out: its name is {shown(name)}, which is no part of a path. Rename it there.")
    return snake_keys(value)


def _tool(definition: dict[str, Any], raw: Raw, rules: ManifestRules, *, is_protojson: bool) -> Tool:
    name = definition["name"]
    try:
        metadata = metadata_of(definition.get("metadata"), is_protojson=is_protojson)
        schema = definition.get("parameters")
        behavior = metadata.async_behavior
        way = _way(definition.pop("via", None))
        return Tool(
            source=rules.source,
            name=name,
            description=cleaned(text_of(definition.get("description")) or ""),
            input_schema=cleaned_schema(plain_schema(schema)) if isinstance(schema, dict) else _no_schema(schema),
            category=text_of(definition.get("category")) or None,
            metadata=metadata,
            timeout_ms=rules.timeout_ms,
            expires_in_ms=None if behavior is None else _lasts_ms(behavior),
            server=rules.server,
            definition=raw if not way else Raw(msgspec.json.encode(definition)),
            via=way,
            is_followable=True,
            is_async=behavior is not None,
        )
    except Unremovable:
        raise _Unusable(
            f"Tool {shown(name)} is left out: hidden characters stand in the names or values of its schema. "
            "Ask the service's owner why."
        ) from None
    except (msgspec.ValidationError, ValueError, RecursionError) as fault:
        raise _Unusable(f"Tool {shown(name)} is left out: {_told(fault)}. Correct it at the service.") from None


def _way(said: Any) -> tuple[str, ...]:
    """The gateways that passed the tool on to this one. It is no part of what the tool is."""
    return msgspec.convert(said or (), tuple[str, ...])


def _lasts_ms(behavior: AsyncBehavior) -> int:
    return round(behavior.status_polling.max_poll_duration_seconds * 1000)


def _no_schema(schema: Any) -> dict[str, Any]:
    if schema is not None:
        raise ValueError("its parameters are no object")
    return dict(EMPTY_SCHEMA)


def _followable(tool: Tool, tools: dict[str, Tool], faults: list[str]) -> Tool:
    """Without its `async_behavior` where the tools that this names are not there."""
    behavior = tool.metadata.async_behavior
    if behavior is None:
        return tool
    wanted = [behavior.status_polling.status_tool]
    wanted += [behavior.cancellation.cancel_tool] if behavior.cancellation is not None else []
    missing = next((name for name in wanted if name not in tools), None)
    if missing is None:
        return tool
    faults.append(
        f"Tool {shown(tool.name)} is not followed to its end: its async_behavior names the tool {shown(missing)}, "
        "which the service does not offer here. Correct it at the service, or allow that tool."
    )
    metadata = msgspec.structs.replace(tool.metadata, async_behavior=None)
    return msgspec.structs.replace(tool, metadata=metadata, is_async=False, expires_in_ms=None)


def _categories(raws: Sequence[Raw], faults: list[str]) -> tuple[Category, ...]:
    found: list[tuple[float, Category]] = []
    for raw in raws[:MAX_TOOLS]:
        try:
            found.append(_category(_value(raw)))
        except (BadManifest, ValueError, RecursionError) as fault:
            faults.append(f"A category is left out: {_told(fault)}. Correct it at the service.")
    return tuple(category for _, category in sorted(found, key=lambda pair: pair[0]))


def _category(said: Any) -> tuple[float, Category]:
    spelled = snake_keys(said) if isinstance(said, dict) else {}
    id_ = spelled.get("id")
    if not isinstance(id_, str) or not id_:
        raise ValueError("it has no id")
    order = spelled.get("display_order")
    category = Category(
        id=id_,
        name=cleaned(text_of(spelled.get("name")) or id_),
        description=cleaned(said_of) if (said_of := text_of(spelled.get("description"))) else None,
        icon=text_of(spelled.get("icon")),
    )
    return (float(order) if isinstance(order, (int, float)) and abs(order) <= MOST_ORDER else 0.0), category


def _is_allowed(name: str, patterns: tuple[str, ...] | None) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


def _hidden(definition: dict[str, Any]) -> list[str]:
    if not has_hidden(definition):
        return []
    name = shown(definition["name"])
    sentence = f"Tool {name} has hidden characters in what it says of itself. They were taken out; ask its owner why."
    return [sentence]


def _told(fault: Exception) -> str:
    """Why something could not be read, to stand within a sentence."""
    if isinstance(fault, RecursionError):
        return "it is nested too deeply"
    text = " ".join(cleaned(str(fault)).split()).rstrip(".")
    return cut(text, 200) or type(fault).__name__
