"""A service's manifest as our listing, and a sentence for each part of it that cannot be used. Pure.

Above: `fetching.py`. Below: `spelling.py`. What a service says is foreign text: hidden characters are taken out and
told of. A tool whose metadata cannot be understood is left out rather than offered without its limits.
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
from jackfield.model.tool import EMPTY_SCHEMA, Category, Tool
from jackfield.parsing import is_semver, snake_keys
from jackfield.sources.base import About, Listing
from jackfield.sources.hidden import Unremovable, cleaned, cleaned_schema, has_hidden
from jackfield.sources.manifest.metadata import metadata_of, shown, text_of
from jackfield.sources.manifest.spelling import plain_schema

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


class Rules(Struct, frozen=True, kw_only=True):
    """What the config says about a service's tools."""

    source: str
    server: str
    """Where it is, for people to see."""
    allowed: tuple[str, ...] | None = None
    timeout_ms: int | None = None


class Manifest(Struct, frozen=True, kw_only=True):
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


def manifest_of(body: bytes, rules: Rules) -> Manifest:
    """The manifest in an answer's body. Raises `BadManifest`."""
    document = _document(body)
    faults: list[str] = []
    generated_at = _moment(document.generated_at, faults)
    tools = _tools(document, rules, faults)
    about = _about(document.scenario)
    if about is not None and about.version and not is_semver(about.version):
        faults.append(f"The service says its version is {shown(about.version)}, which is no semantic version.")
    return Manifest(
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


def _tools(document: _Document, rules: Rules, faults: list[str]) -> dict[str, Tool]:
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


def _tool(definition: dict[str, Any], raw: Raw, rules: Rules, *, is_protojson: bool) -> Tool:
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
