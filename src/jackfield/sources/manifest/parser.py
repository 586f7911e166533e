"""A service's manifest as a listing, and a sentence for each part of it that cannot be used. Pure.

A manifest is foreign text: hidden characters are removed and reported. What we do not know is ignored; a tool whose
metadata makes no sense is left out rather than offered without its limits.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import JackfieldError
from jackfield.model.redaction import cut
from jackfield.model.tool import EMPTY_SCHEMA, Category, CostEstimate, Metadata, Tool
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.manifest import is_semver
from jackfield.settings.parsing import snake_keys
from jackfield.sources.base import About, Listing
from jackfield.sources.foreign import (
    MAX_DEFINITION,
    MAX_NAME,
    MAX_TOOLS,
    ListingRules,
    ToolAllowlist,
    Unremovable,
    UnusableTool,
    cleaned,
    cleaned_schema,
    has_hidden,
    shown,
)
from jackfield.sources.manifest.protojson import plain, plain_object, plain_schema, snake_deep

MAJOR = 1
MAX_ABOUT = 1_000
MAX_ORDER = 1e9
"""The largest `display_order` of a category; JSON has numbers that are no floats."""
_METADATA = frozenset(Metadata.__struct_fields__) - {"verify"}
"""A service does not name a tool that is called in the name of its callers."""
_COSTS = frozenset(cost.value for cost in CostEstimate)
_VERSION = re.compile(r"(\d{1,9})(?:\.\d{1,9}){0,2}", re.ASCII)


class BadManifest(JackfieldError):
    """The service's response is not a manifest that this gateway reads."""

    code = "bad_manifest"


class ServiceManifest(Struct, frozen=True, kw_only=True):
    """What a service offers, as of `generated_at`."""

    listing: Listing = Listing()
    generated_at: datetime | None = None


def manifest_of(body: bytes, rules: ListingRules) -> ServiceManifest:
    """The manifest in a response's body. Raises `BadManifest`."""
    try:
        parts = msgspec.json.decode(body, type=dict[str, Raw])
    except UNREADABLE as fault:
        raise BadManifest(f"It answered with no manifest: {_reason(fault)}. Its url may be wrong.") from None
    is_protojson = "protocolVersion" in parts
    document = snake_keys(parts)
    _check_version(_value(document.get("protocol_version")))
    # protojson leaves out what is empty; in the document's own spelling every list is there.
    if "tools" not in document and not is_protojson:
        raise BadManifest("Its manifest has no 'tools'. Correct it at the service.")
    faults: list[str] = []
    generated_at = _time(_value(document.get("generated_at")), faults)
    tools = _tools(_list(document.get("tools"), "tools"), rules, faults, is_protojson=is_protojson)
    about = _about(_value(document.get("scenario")))
    if about is not None and about.version and not is_semver(about.version):
        faults.append(f"The service's version is {shown(about.version)}, which is not a semantic version.")
    listing = Listing(
        tools=tuple(_followable(tool, tools, faults) for tool in tools.values()),
        categories=_categories(_list(document.get("categories"), "categories"), faults),
        faults=tuple(faults),
        about=about,
    )
    return ServiceManifest(listing=listing, generated_at=generated_at)


def _check_version(version: Any) -> None:
    """Minor and patch versions make no difference."""
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is None:
        said = "is missing" if version is None else f"is {shown(version)}"
        raise BadManifest(
            f"Its manifest's protocol_version {said}, which is not a valid version. Correct it at the service."
        )
    if int(found[1]) != MAJOR:
        raise BadManifest(
            f"It speaks version {version} of the discovery protocol; this gateway reads {MAJOR}.x. "
            "Use a service, or a gateway, that fits the other."
        )


def _value(raw: Raw | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except UNREADABLE as fault:
        raise BadManifest(f"Its manifest cannot be read: {_reason(fault)}. Correct it at the service.") from None


def _list(raw: Raw | None, what: str) -> list[Raw]:
    try:
        return [] if raw is None or bytes(raw) == b"null" else msgspec.json.decode(raw, type=list[Raw])
    except UNREADABLE as fault:
        raise BadManifest(
            f"Its manifest's '{what}' is not a list: {_reason(fault)}. Correct it at the service."
        ) from None


def _time(said: Any, faults: list[str]) -> datetime | None:
    if said is None:
        return None
    try:
        time = datetime.fromisoformat(said)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        faults.append(f"Its generated_at is {shown(said)}, which is not an ISO 8601 time. Correct it at the service.")
        return None


def _about(said: Any) -> About | None:
    """Who the service says it is. Where it is, the config says."""
    if not isinstance(said, dict):
        return None
    texts = {key: said[key] for key in ("version", "description") if isinstance(said.get(key), str)}
    return About(**{key: cleaned(text)[:MAX_ABOUT] for key, text in texts.items()})


def _tools(raws: Sequence[Raw], rules: ListingRules, faults: list[str], *, is_protojson: bool) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    allowed = ToolAllowlist(rules.allowed)
    for raw in raws[:MAX_TOOLS]:
        try:
            definition = _definition(raw)
            name = definition["name"]
            if not allowed.permits(name):
                continue
            if name in tools:
                raise UnusableTool(f"Tool {shown(name)} is offered twice; the first is used.")  # noqa: TRY301 - reported like the others
            tools[name] = _tool(definition, raw, rules, is_protojson=is_protojson)
            if has_hidden(definition):
                faults.append(
                    f"Tool {shown(name)} has hidden characters in what it says of itself. "
                    "They were taken out; ask its owner why."
                )
        except UnusableTool as fault:
            faults.append(str(fault))
    if len(raws) > MAX_TOOLS:
        faults.append(f"The service offers {len(raws):,} tools; the first {MAX_TOOLS:,} are used.")
    return tools


def _definition(raw: Raw) -> dict[str, Any]:
    if len(bytes(raw)) > MAX_DEFINITION:
        raise UnusableTool(f"A tool is left out: its definition has more than the {MAX_DEFINITION:,} bytes allowed.")
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE as fault:
        raise UnusableTool(f"A tool is left out: {_reason(fault)}. Correct it at the service.") from None
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise UnusableTool(f"A tool is left out: it has no name of 1 to {MAX_NAME} characters.")
    if name in (".", ".."):
        raise UnusableTool(
            f"A tool is left out: its name is {shown(name)}, which cannot be part of a path. Rename it there."
        )
    return snake_keys(value)


def _tool(definition: dict[str, Any], raw: Raw, rules: ListingRules, *, is_protojson: bool) -> Tool:
    name = definition["name"]
    try:
        metadata = metadata_of(definition.get("metadata"), is_protojson=is_protojson)
        schema = definition.get("parameters")
        if schema is not None and not isinstance(schema, dict):
            raise ValueError("its parameters are not an object")  # noqa: TRY301 - reported like the others
        behavior = metadata.async_behavior
        lasts = None if behavior is None else round(behavior.status_polling.max_poll_duration_seconds * 1000)
        # The gateways that passed the tool on to this one are no part of what it is.
        via = msgspec.convert(definition.pop("via", None) or (), tuple[str, ...])
        return Tool(
            source=rules.source,
            name=name,
            description=cleaned(text_of(definition.get("description")) or ""),
            input_schema=dict(EMPTY_SCHEMA) if schema is None else cleaned_schema(plain_schema(schema)),
            category=text_of(definition.get("category")) or None,
            metadata=metadata,
            timeout_ms=rules.timeout_ms,
            expires_in_ms=lasts,
            server=rules.server,
            definition=Raw(msgspec.json.encode(definition)) if via else raw,
            via=via,
            is_followable=True,
            is_async=behavior is not None,
        )
    except Unremovable:
        raise UnusableTool(
            f"Tool {shown(name)} is left out: hidden characters stand in the names or values of its schema. "
            "Ask the service's owner why."
        ) from None
    except (msgspec.ValidationError, ValueError, RecursionError) as fault:
        raise UnusableTool(f"Tool {shown(name)} is left out: {_reason(fault)}. Correct it at the service.") from None


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
            faults.append(f"A category is left out: {_reason(fault)}. Correct it at the service.")
    return tuple(category for _, category in sorted(found, key=lambda pair: pair[0]))


def _category(said: Any) -> tuple[float, Category]:
    """Its place and itself."""
    parts = snake_keys(said) if isinstance(said, dict) else {}
    id_, order = parts.get("id"), parts.get("display_order")
    if not isinstance(id_, str) or not id_:
        raise ValueError("it has no id")
    description = text_of(parts.get("description"))
    category = Category(
        id=id_,
        name=cleaned(text_of(parts.get("name")) or id_),
        description=cleaned(description) if description else None,
        icon=text_of(parts.get("icon")),
    )
    return (float(order) if isinstance(order, (int, float)) and abs(order) <= MAX_ORDER else 0.0), category


def metadata_of(said: Any, *, is_protojson: bool) -> Metadata:
    """A tool's metadata. Raises `ValueError` for what makes no sense."""
    if said is None:
        return Metadata()
    if not isinstance(said, dict):
        raise ValueError("its metadata is not an object")  # noqa: TRY004 - reported like the others
    known = {key: value for key, value in snake_keys(said).items() if key in _METADATA and value is not None}
    if is_protojson:
        known.setdefault("enabled_by_default", False)  # protojson leaves out what is false
    for limit in ("timeout_seconds", "rate_limit_per_minute"):
        if known.get(limit) == 0:
            del known[limit]
    cost = known.pop("cost_estimate", None)
    if isinstance(cost, str) and cost in _COSTS:  # a later version may have words of its own
        known["cost_estimate"] = cost
    for key, read in (("tags", _tag), ("examples", _example)):
        if isinstance(known.get(key), list):
            known[key] = [read(value) for value in known[key]]
    known["async_behavior"] = snake_deep(known.get("async_behavior"))
    metadata = msgspec.convert(known, Metadata, strict=False)
    if metadata.rate_limit_per_minute is not None and metadata.rate_limit_per_minute < 0:
        raise ValueError("its rate_limit_per_minute is below zero")
    return metadata


def _tag(tag: Any) -> str:
    return cleaned(text_of(tag) or "")


def _example(example: Any) -> dict[str, Any]:
    if not isinstance(example, dict):
        raise ValueError("one of its examples is not an object")  # noqa: TRY004 - reported like the others
    parts = snake_keys(example)
    kept = {
        "description": cleaned(text_of(parts.get("description")) or ""),
        "input": plain_object(parts.get("input") or {}),
    }
    if parts.get("expected_output") is not None:
        kept["expected_output"] = plain(parts["expected_output"])
    return kept


def text_of(value: Any) -> str | None:
    """Text, or nothing; anything else raises `ValueError`."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{shown(value)} was found where text was expected")
    return value


def _reason(fault: Exception) -> str:
    """Why something could not be read, within a sentence."""
    if isinstance(fault, RecursionError):
        return "it is nested too deeply"
    return cut(" ".join(cleaned(str(fault)).split()).rstrip("."), 200) or type(fault).__name__
